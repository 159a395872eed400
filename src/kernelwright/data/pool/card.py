"""The data card of a pool: how much is right, how fast, and how well the cost model ranks."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median

import numpy as np

from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.data.pool.answers import Chosen, PoolAnswer, PoolProgram
from kernelwright.data.pool.recipe import PoolRecipe
from kernelwright.data.pool.steps import judged_steps

LEAST = 3
"""The fewest answers to a program for a rank correlation."""


def summary_of(programs: Iterable[PoolProgram]) -> Record:
    """Figures of a pool: for all programs together, and for each level (docs/pool.md)."""
    by_level: dict[int, list[PoolProgram]] = defaultdict(list)
    for program in programs:
        by_level[program.level].append(program)
    everything = [program for some in by_level.values() for program in some]
    return {
        "record": "pool_summary",
        "all": _figures(everything),
        "levels": {f"L{level}": _figures(by_level[level]) for level in sorted(by_level)},
    }


def summary_of_steps(programs: Iterable[PoolProgram], verdicts: Mapping[str, Verdict]) -> Record:
    """How many steps of wrong answers are right, by level."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for program in programs:
        for answer in program.answers:
            if answer.verdict is None or answer.verdict.accepted:
                continue
            steps = judged_steps(program, answer, verdicts)
            counts[program.level]["wrong_answers"] += 1
            counts[program.level]["with_steps"] += bool(steps)
            counts[program.level]["steps"] += len(steps)
            counts[program.level]["right_steps"] += sum(step.is_right for step in steps)
    return {f"L{level}": dict(counts[level]) for level in sorted(counts)}


def _figures(programs: Sequence[PoolProgram]) -> Record:
    answers = [answer for program in programs for answer in program.answers]
    verdicts = [answer.verdict for answer in answers if answer.verdict is not None]
    return {
        "programs": len(programs),
        "written": sum(answer.copies for answer in answers),
        "distinct": len(answers),
        "malformed": dict(Counter(answer.malformed for answer in answers if answer.malformed)),
        "judged": len(verdicts),
        "codes": dict(Counter(verdict.code.value for verdict in verdicts).most_common()),
        "correct": {str(why): _share_correct(answers, why) for why in Chosen},
        "faster": {str(why): _share_faster(answers, why) for why in Chosen},
        "speedup": {str(why): _speedup(programs, why) for why in Chosen},
        "planned": {str(why): _planned(programs, why) for why in Chosen},
        "best_over_greedy": _best_over_greedy(programs),
        "rank_correlation": _correlation(programs),
    }


def measured_ms(answer: PoolAnswer) -> float | None:
    """The median time of a correct answer; None where it was not timed."""
    verdict = answer.verdict
    if verdict is None or not verdict.accepted or "candidate" not in verdict.times:
        return None
    return verdict.times["candidate"].median_ms


def _share(answers: Sequence[PoolAnswer], why: Chosen, holds: Callable[[Verdict], bool]) -> Record:
    verdicts = [a.verdict for a in answers if a.chosen is why and a.verdict is not None]
    num_holding = sum(map(holds, verdicts))
    return {"of": len(verdicts), "share": num_holding / len(verdicts) if verdicts else None}


def _share_correct(answers: Sequence[PoolAnswer], why: Chosen) -> Record:
    return _share(answers, why, lambda verdict: verdict.accepted)


def _share_faster(answers: Sequence[PoolAnswer], why: Chosen) -> Record | None:
    """The share of judged answers of a kind that are faster than PyTorch; None without times."""
    if not any(measured_ms(answer) for answer in answers):
        return None
    return _share(answers, why, lambda verdict: verdict.accepted and verdict.is_faster)


def _speedup(programs: Sequence[PoolProgram], why: Chosen) -> float | None:
    """Geometric mean over PyTorch, of the fastest correct answer of this kind to each program."""
    best = [
        max(
            (
                answer.verdict.speedup
                for answer in program.answers
                if answer.chosen is why
                and answer.verdict is not None
                and answer.verdict.accepted
                and answer.verdict.speedup is not None
            ),
            default=None,
        )
        for program in programs
    ]
    logs = [math.log(speedup) for speedup in best if speedup is not None]
    return math.exp(fmean(logs)) if logs else None


def _planned(programs: Sequence[PoolProgram], why: Chosen) -> float | None:
    """Geometric mean over PyTorch by the cost model, of the correct answers of this kind."""
    logs = [
        math.log(program.eager_s / answer.planned_s)
        for program in programs
        for answer in program.answers
        if answer.chosen is why
        and answer.planned_s is not None
        and answer.verdict is not None
        and answer.verdict.accepted
    ]
    return math.exp(fmean(logs)) if logs else None


def _best_over_greedy(programs: Sequence[PoolProgram]) -> Record:
    """How much faster the fastest answer of the policy is than its greedy answer."""
    ratios = []
    for program in programs:
        times = {
            answer.number: time
            for answer in program.answers
            if answer.chosen is not Chosen.TEACHER and (time := measured_ms(answer)) is not None
        }
        greedy = program.answers[0]
        if greedy.chosen is Chosen.GREEDY and greedy.number in times:
            ratios.append(math.log(times[greedy.number] / min(times.values())))
    return {"of": len(ratios), "ratio": math.exp(fmean(ratios)) if ratios else None}


def _correlation(programs: Sequence[PoolProgram]) -> Record:
    """Spearman's rank correlation of planned and measured times: within programs, their median,
    which is what choosing rests on; and over all answers."""
    within, planned, measured = [], [], []
    for program in programs:
        pairs = [
            (answer.planned_s, time)
            for answer in program.answers
            if answer.planned_s is not None and (time := measured_ms(answer)) is not None
        ]
        planned += [one for one, _ in pairs]
        measured += [other for _, other in pairs]
        # Equal plans have equal estimates: a constant row has no ranks to compare.
        if len(pairs) >= LEAST and len({one for one, _ in pairs}) > 1:
            within.append(spearman(*zip(*pairs, strict=True)))
    return {
        "programs": len(within),
        "within_median": median(within) if within else None,
        "within_mean": fmean(within) if within else None,
        "answers": len(planned),
        "over_all": spearman(planned, measured) if len(planned) >= LEAST else None,
    }


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """The rank correlation of two rows of numbers, ties by mean rank; 0 where a row is constant."""
    ranks = [_ranks(np.asarray(values, float)) for values in (one, other)]
    if min(float(np.ptp(values)) for values in ranks) == 0:
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, (n,); equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: np.ndarray = ends - (counts - 1) / 2
    return means[place]


def card(recipe: PoolRecipe, summary: Record) -> str:
    """The data card, in Markdown."""
    figures = summary["all"]
    correlation = figures["rank_correlation"]
    writer, choice = recipe.writer, recipe.choice
    return "\n".join(
        [
            f"# {recipe.title or 'A pool of judged answers'}\n",
            f"{figures['programs']:,} programs, {figures['written']:,} answers of "
            f"`{writer.path}` ({writer.samples} at temperature {writer.temperature:g} and the "
            f"greedy answer) and of the teacher ({writer.teacher} a program), "
            f"{figures['distinct']:,} of them distinct. "
            f"Judged are the greedy answer, the {choice.best} best by the cost model, "
            f"{choice.random} by chance and all of the teacher: "
            f"{figures['judged']:,} in all.\n",
            _levels(summary),
            "Faster and speed-up are measured; planned is the speed-up that the cost model takes "
            "from the plans of correct answers.\n",
            "## The cost model\n",
            _sentence(correlation),
            *_steps_section(summary.get("steps", {})),
            f"\nSeed {recipe.seed}. `pool.json` holds recipe and versions, docs/pool.md the "
            "columns.\n",
        ]
    )


def _steps_section(levels: Record) -> list[str]:
    """How many steps of wrong answers are right; nothing where steps were not judged."""
    if not levels:
        return []
    rows = [
        "| level | wrong answers | with several steps | steps judged | right |",
        "|" + " --- |" * 5,
    ]
    for name, counts in levels.items():
        share = counts["right_steps"] / counts["steps"] if counts["steps"] else None
        rows.append(
            f"| {name} | {counts['wrong_answers']} | {counts['with_steps']} | {counts['steps']} "
            f"| {'none' if share is None else f'{share:.1%}'} |"
        )
    return ["\n## Steps of wrong answers\n", *rows]


def _sentence(correlation: Record) -> str:
    if correlation["over_all"] is None:
        return "Nothing was timed: there is no rank correlation."
    text = (
        f"Spearman's rank correlation of planned and measured times is "
        f"{correlation['over_all']:.2f} over {correlation['answers']:,} answers"
    )
    if correlation["within_median"] is None:
        return f"{text}."
    return (
        f"{text}, and {correlation['within_median']:.2f} within a program (the median of "
        f"{correlation['programs']:,} programs)."
    )


def _levels(summary: Record) -> str:
    rows = ["| level | programs | judged | answer | correct | faster | speed-up | planned |"]
    rows.append("|" + " --- |" * 8)
    for name, figures in {**summary["levels"], "all": summary["all"]}.items():
        for why in Chosen:
            correct, faster = figures["correct"][why], figures["faster"][why]
            if correct["of"]:
                rows.append(
                    f"| {name} | {figures['programs']} | {correct['of']} | {why} "
                    f"| {correct['share']:.1%} "
                    f"| {_percent(faster)} "
                    f"| {_number(figures['speedup'][why])} "
                    f"| {_number(figures['planned'][why])} |"
                )
    return "\n".join([*rows, ""])


def _percent(share: Record | None) -> str:
    return "not timed" if share is None else f"{share['share']:.1%}"


def _number(value: float | None) -> str:
    return "not timed" if value is None else f"{value:.2f}x"
