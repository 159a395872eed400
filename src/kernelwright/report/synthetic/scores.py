"""Scores of a policy's answers to programs: by level, by operator, and between suites.

If a policy gave several samples, pass@k is over all of them. The other counts (correct, faster,
mean speed-up) are of the first sample alone.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.scores import Mean, best_of_k, gap, geometric_mean, mean_share
from kernelwright.report.suite.scores import Scores, scores_by_level, speedup

Samples = Sequence[CaseLine]
"""The cases of one program."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diversity:
    """How much the candidates of a program differ, over programs with several."""

    programs: int
    schedules: float
    """Share of distinct ones among the candidates of a program, meaned over programs."""
    texts: float
    """As `schedules`, of whole candidates."""
    spread: Mean | None
    """Time of the slowest correct candidate of a program, divided by the time of the fastest:
    the geometric mean over programs with two timed candidates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BestOf:
    """The speed-up that a user gets from the fastest of k samples: 1 where none of them is correct
    and faster than PyTorch."""

    is_measured: bool
    """By times; else by the cost model, where nothing was timed."""
    at: dict[int, Mean]
    """k -> geometric mean over programs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelScores:
    """The scores of a level of a suite."""

    level: str
    samples: int
    """Answers judged or malformed, over all programs."""
    first: Scores
    """The scores of the first sample of each program."""
    pass_1: Mean
    """Share of correct samples, meaned over programs."""
    malformed: int
    """Samples that hold no candidate."""
    reasons: dict[str, int]
    """Why samples are not correct: the judge's code, or "answer: " and why there is no candidate;
    the most frequent first."""
    diversity: Diversity | None
    """None with one sample a program."""
    best_of: BestOf | None
    """None with one sample a program, or where no speed is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorScores:
    """How often programs with an operator are solved."""

    operator: str
    alone: Mean | None
    """pass@1 of the programs of this one call; None where there are none."""
    among: Mean
    """pass@1 of all programs that it is in."""
    reasons: dict[str, int]
    """Why samples for programs of this one call are not correct."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassGap:
    """pass@1 of one suite above another's, at a level that both have."""

    level: str
    one: Mean
    other: Mean
    above: Mean


def by_suite(cases: Iterable[CaseLine]) -> dict[str, list[CaseLine]]:
    suites: dict[str, list[CaseLine]] = defaultdict(list)
    for case in cases:
        suites[case["suite"]].append(case)
    return dict(suites)


def level_scores(cases: Sequence[CaseLine]) -> list[LevelScores]:
    """The scores of each level of a suite, in the order of their first case."""
    levels: dict[str, list[CaseLine]] = defaultdict(list)
    for case in cases:
        levels[case["level"]].append(case)
    first = {scores.level: scores for scores in scores_by_level(cases)}
    return [
        _of_level(level, cases_of_level, first[level]) for level, cases_of_level in levels.items()
    ]


def _of_level(level: str, cases: Sequence[CaseLine], first: Scores) -> LevelScores:
    return LevelScores(
        level=level,
        samples=len(cases),
        first=first,
        pass_1=pass_1(cases),
        malformed=sum(map(is_malformed, cases)),
        reasons=_reasons(cases),
        diversity=diversity(cases),
        best_of=best_of(cases, first.pass_at),
    )


def is_malformed(case: CaseLine) -> bool:
    """Whether the answer holds no candidate."""
    return case.get("malformed") is not None


def _reasons(cases: Iterable[CaseLine]) -> dict[str, int]:
    """Reason -> number of cases that are not correct for it, the most frequent first."""
    wrong = [case for case in cases if not case["correct"]]
    reasons = [f"answer: {c['malformed']}" if is_malformed(c) else c["code"] for c in wrong]
    return dict(Counter(reasons).most_common())


def pass_1(cases: Iterable[CaseLine]) -> Mean:
    """The share of correct samples of a program, and the mean of these shares over programs."""
    return mean_share([_share(case["correct"] for case in one) for one in by_program(cases)])


def operator_scores(cases: Sequence[CaseLine]) -> list[OperatorScores]:
    """The scores of each operator of a suite, the least often correct first."""
    among: dict[str, list[CaseLine]] = defaultdict(list)
    for case in cases:
        for operator in case["operators"]:
            among[operator].append(case)
    scores = [_of_operator(operator, own) for operator, own in among.items()]
    return sorted(scores, key=lambda score: ((score.alone or score.among).value, score.among.value))


def _of_operator(operator: str, cases: Sequence[CaseLine]) -> OperatorScores:
    alone = [case for case in cases if case["num_calls"] == 1]
    return OperatorScores(
        operator=operator,
        alone=pass_1(alone) if alone else None,
        among=pass_1(cases),
        reasons=_reasons(alone),
    )


def gaps(one: Sequence[CaseLine], other: Sequence[CaseLine]) -> list[PassGap]:
    """How far pass@1 of one suite lies above another's, level by level."""
    ours, others = (
        {scores.level: scores.pass_1 for scores in level_scores(cases)} for cases in (one, other)
    )
    return [
        PassGap(level=level, one=mean, other=others[level], above=gap(mean, others[level]))
        for level, mean in ours.items()
        if level in others
    ]


def by_program(cases: Iterable[CaseLine]) -> list[Samples]:
    """The cases of each program, in the order of their first case."""
    programs: dict[str, list[CaseLine]] = defaultdict(list)
    for case in cases:
        programs[case["name"]].append(case)
    return list(programs.values())


def _share(values: Iterable[bool]) -> float:
    flags = list(values)
    return sum(flags) / len(flags)


def diversity(cases: Iterable[CaseLine]) -> Diversity | None:
    """How much the candidates of a program differ; None if no program has two candidates."""
    written = by_program(case for case in cases if not is_malformed(case))
    several = [samples for samples in written if len(samples) > 1]
    if not several:
        return None
    spreads = [spread for samples in several if (spread := _spread(samples)) is not None]
    return Diversity(
        programs=len(several),
        schedules=_distinct(several, "schedule"),
        texts=_distinct(several, "content"),
        spread=geometric_mean(spreads, "spread") if spreads else None,
    )


def best_of(cases: Sequence[CaseLine], ks: Iterable[int]) -> BestOf | None:
    """The speed-up of the fastest of k samples: by times, or if there are none by the cost model.
    None if no speed is known.

    Args:
        ks: numbers of samples, at most as many as every program has.
    """
    timed = [speedup(case, "eager") for case in cases]
    is_measured = any(ratio is not None for ratio in timed)
    modelled = [case.get("modelled") if case["correct"] else None for case in cases]
    ratios = timed if is_measured else modelled
    if all(ratio is None for ratio in ratios):
        return None
    logs: dict[str, list[float]] = defaultdict(list)
    for case, ratio in zip(cases, ratios, strict=True):
        # A sample that is wrong or slow counts as 1: the user keeps PyTorch then.
        logs[case["name"]].append(math.log(max(ratio or 1.0, 1.0)))
    at = {
        k: geometric_mean([math.exp(best_of_k(own, k)) for own in logs.values()], "best of", str(k))
        for k in ks
    }
    return BestOf(is_measured=is_measured, at=at) if at else None


def _distinct(programs: Sequence[Samples], key: Literal["schedule", "content"]) -> float:
    shares = [len({case[key] for case in samples}) / len(samples) for samples in programs]
    return sum(shares) / len(shares)


def _spread(samples: Samples) -> float | None:
    """The largest speed-up over eager by the smallest, among different candidates of a program.
    None if fewer than two were timed."""
    speedups = {case["content"]: speedup(case, "eager") for case in samples}
    timed = [ratio for ratio in speedups.values() if ratio is not None]
    return max(timed) / min(timed) if len(timed) > 1 else None
