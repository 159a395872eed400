"""The page of a policy's answers to programs, from the records in a run's folder."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.commits import named
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.suites import CaseLine, SuiteRunLine
from kernelwright.core.scores import Mean
from kernelwright.report import words
from kernelwright.report.curves import MOST_POINTS, CurveChart, Series, line_chart, percent
from kernelwright.report.format import Rows, factor
from kernelwright.report.rendering import asset, template, write_page
from kernelwright.report.suite.page import PAGE, RECORDS
from kernelwright.report.suite.scores import committed
from kernelwright.report.synthetic.scores import (
    LevelScores,
    OperatorScores,
    PassGap,
    by_program,
    by_suite,
    gaps,
    level_scores,
    operator_scores,
)

COMMAND = "eval synthetic"
PUBLISHED = {"L1": (86.8, 32.1), "L2": (75.0, 54.0), "L5": (15.0, 10.0), "L20": (0.0, 0.0)}
"""DRTriton-7B without search on its own synthetic set: percent correct, faster than eager."""

MESSAGE_LIMIT = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """The records of a run of `eval synthetic`."""

    run: SuiteRunLine
    suites: dict[str, list[CaseLine]]
    """Name -> its cases."""

    @property
    def levels(self) -> dict[str, list[LevelScores]]:
        return {name: level_scores(cases) for name, cases in self.suites.items()}

    @property
    def gaps(self) -> Iterator[tuple[str, list[PassGap]]]:
        """Every two suites that have a level in common."""
        for (name, cases), (other, others) in combinations(self.suites.items(), 2):
            if gaps_found := gaps(cases, others):
                yield f"{name} above {other}", gaps_found


def read_examination(folder: Path) -> Examination:
    """The run in a folder that `eval synthetic` wrote.

    Raises:
        UsageError: it has no run, or no case.
    """
    path = folder / RECORDS
    lines = list(record.read(path, whole=True)) if record.command_of(path) == COMMAND else []
    run, cases = next(record.of_kind(lines, SuiteRunLine), None), list(committed(lines))
    if run is None or not cases:
        raise UsageError("no cases of a run", file=str(path))
    return Examination(run=run, suites=by_suite(cases))


def write_examination(folder: Path) -> Examination:
    """Write `report.html` into the folder."""
    examination = read_examination(folder)
    write_page(folder / PAGE, page(examination))
    return examination


def page(examination: Examination) -> str:
    """The page of a run as HTML text."""
    return template("synthetic.html").render(
        run=examination.run,
        facts=_facts(examination),
        sentences=[sentence(name, scores) for name, scores in examination.levels.items()],
        gaps=[(name, gap_rows(gaps)) for name, gaps in examination.gaps],
        suites=[
            {
                "name": name,
                "answers": answers(scores),
                "speeds": speeds(scores),
                "diversity": diversity(scores),
                "bests": bests(scores),
                "curves": curves(scores),
                "reasons": reasons(scores),
                "operators": operators(operator_scores(examination.suites[name])),
                "failures": failures(examination.suites[name]),
            }
            for name, scores in examination.levels.items()
        ],
        most_points=MOST_POINTS,
        style=asset("style.css"),
    )


def sentence(name: str, levels: Sequence[LevelScores]) -> str:
    """The figures of a suite that a reader looks for first."""
    shares = ", ".join(f"{level.level} {100 * level.pass_1.value:.0f}%" for level in levels)
    return f"{name}: share of programs with a correct kernel at the first answer: {shares}."


def _facts(examination: Examination) -> list[str]:
    """The settings that all figures rest on."""
    run = examination.run
    commits = (case.get("commit", "") for cases in examination.suites.values() for case in cases)
    options, environment = run["options"], run["environment"]
    is_greedy = options["temperature"] == 0
    drawn = f"temperature {options['temperature']:g}, top-p {options['top_p']:g}"
    on_gpu, left = options["device"] == "cuda", run["left"]
    return [
        f"written by: {run['policy']}",
        f"answers a program: {options['samples']}, {'greedy' if is_greedy else drawn}",
        f"mode: {options['mode']}",
        f"precision: {options['precision']}",
        f"judge's processes: {options['grade']}",
        str(environment["gpu"]).split(",")[0] if on_gpu else "CPU interpreter, no times",
        f"torch {environment['versions']['torch']}",
        f"commit {named(commits)}",
        *([f"{left} answers not judged"] if left else []),
    ]


def answers(levels: Sequence[LevelScores]) -> Rows:
    """A heading, then for each level pass@k, and how many first samples are correct."""
    has_several = any(k > 1 for level in levels for k in level.first.pass_at)
    head = ("level", "programs", "samples", "pass@1, %", *["pass@k, %"] * has_several)
    rows: Rows = [(*head, "correct", "malformed, %", "published, %", "commit")]
    for level in levels:
        several = [
            f"k = {k}: {100 * share:.1f}" for k, share in level.first.pass_at.items() if k > 1
        ]
        numbers = (level.level, str(level.first.tasks), str(level.samples))
        malformed = f"{100 * level.malformed / level.samples:.1f}"
        theirs = " / ".join(f"{share:g}" for share in PUBLISHED.get(level.level, ()))
        correct = str(level.first.correct)
        of_several = [", ".join(several)] * has_several
        shares = (points(level.pass_1), *of_several, correct, malformed, theirs)
        rows.append((*numbers, *shares, named(level.first.commits)))
    return rows


def speeds(levels: Sequence[LevelScores]) -> Rows:
    """How many first samples are faster than eager, and by how much; no rows without times."""
    rows: Rows = [("level", "programs", "faster", "mean of correct ones")]
    for level in levels:
        for score in level.first.against:
            mean = f"{_interval(score.correct)}, n = {score.correct.num}"
            rows.append((level.level, str(level.first.tasks), str(score.beats), mean))
    return rows if len(rows) > 1 else []


def diversity(levels: Sequence[LevelScores]) -> Rows:
    """How much samples differ; no rows with one sample a program."""
    rows: Rows = [
        ("level", "programs", "distinct schedules", "distinct texts", "fastest over slowest")
    ]
    for level in levels:
        if (figures := level.diversity) is not None:
            spread = (
                f"{_interval(figures.spread)}, n = {figures.spread.num}" if figures.spread else ""
            )
            num = str(figures.programs)
            rows.append(
                (level.level, num, f"{figures.schedules:.2f}", f"{figures.texts:.2f}", spread)
            )
    return rows if len(rows) > 1 else []


def bests(levels: Sequence[LevelScores]) -> Rows:
    """The speed-up of the fastest of k samples, a column for each k; no rows with one sample."""
    sampled = [(level, level.best_of) for level in levels if level.best_of is not None]
    if not sampled:
        return []
    ks = sorted({k for _, best in sampled for k in best.at})
    rows: Rows = [("level", "programs", "by", *(f"best of {k}" for k in ks))]
    for level, best in sampled:
        by = "times" if best.is_measured else "cost model"
        means = (_interval(best.at[k]) if k in best.at else "" for k in ks)
        rows.append((level.level, str(level.first.tasks), by, *means))
    return rows


def curves(levels: Sequence[LevelScores]) -> list[CurveChart]:
    """pass@k and best of k over k, a line for each level; nothing with one sample a program."""
    passed = [Series(level.level, list(level.first.pass_at.items())) for level in levels]
    best = [
        Series(level.level, [(k, mean.value) for k, mean in level.best_of.at.items()])
        for level in levels
        if level.best_of is not None
    ]
    note = "Over k samples."
    drawn = (
        line_chart("pass@k", passed, show=percent, note=note),
        line_chart("Speed-up of the best of k", best, show=factor, note=note),
    )
    return [chart for chart in drawn if chart is not None]


def _interval(mean: Mean) -> str:
    return f"{factor(mean.value)} ({mean.low:.2f} to {mean.high:.2f})"


def reasons(levels: Sequence[LevelScores]) -> Rows:
    """A row for each reason, the most frequent first: percent of all samples of each level."""
    rows: Rows = [("reason", *(level.level for level in levels))]
    total = sum((Counter(level.reasons) for level in levels), Counter[str]())
    for reason, _ in total.most_common():
        shares = [level.reasons.get(reason, 0) / level.samples for level in levels]
        rows.append(
            (words.answer(reason), *(f"{100 * share:.1f}" if share else "" for share in shares))
        )
    return rows


def operators(scores: Sequence[OperatorScores]) -> Rows:
    """A row for each operator, the least often correct first."""
    rows: Rows = [("operator", "alone, %", "n", "among others, %", "n", "alone: why not")]
    for score in scores:
        alone = (
            (f"{100 * score.alone.value:.0f}", str(score.alone.num)) if score.alone else ("", "")
        )
        among = (f"{100 * score.among.value:.0f}", str(score.among.num))
        why = ", ".join(f"{words.answer(code)}: {n}" for code, n in score.reasons.items())
        rows.append((score.operator, *alone, *among, why))
    return rows


def failures(cases: Sequence[CaseLine]) -> Rows:
    """A row for each program with samples that are not correct: how many, and the first of them."""
    rows: Rows = [("program", "not correct", "operators", "why")]
    for samples in by_program(cases):
        wrong = [case for case in samples if not case["correct"]]
        if wrong:
            message = words.message(wrong[0]["message"])[:MESSAGE_LIMIT]
            why = f"{words.outcome(wrong[0]['code'])}: {message}"
            counted = f"{len(wrong)} of {len(samples)}"
            rows.append((wrong[0]["name"], counted, " ".join(wrong[0]["operators"]), why))
    return rows


def gap_rows(examination: Sequence[PassGap]) -> Rows:
    rows: Rows = [("level", "pass@1, %", "other, %", "points")]
    for gap in examination:
        rows.append((gap.level, points(gap.one), points(gap.other), points(gap.above)))
    return rows


def points(mean: Mean) -> str:
    """A share in percent, or a difference of two in points."""
    low, high = 100 * mean.low, 100 * mean.high
    return f"{100 * mean.value:.1f} ({low:.1f} to {high:.1f}), n = {mean.num}"
