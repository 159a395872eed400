"""Compares two runs on the same tasks: which tasks they solve, and how fast.

Runs are compared task by task. Two runs solve different tasks, so mean speed-ups of all tasks that
each run solves could not be compared.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.delivered import EAGER, over
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.scores import Mean, geometric_mean, mcnemar
from kernelwright.report.suite.scores import beats, speedup

RECORDS = "records.jsonl"
ALL = "all"
Key = tuple[str, str, int, int]
"""Suite, level, number of the task, sample."""
Cases = Mapping[Key, CaseLine]


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelComparison:
    """Tasks of one level that both runs have."""

    level: str
    programs: int
    correct: tuple[int, int]
    """Before and after."""
    gained: int
    lost: int
    p_value: float
    """McNemar's test on gained and lost."""
    faster: tuple[int, int] | None
    """Programs that are correct and faster than PyTorch beyond chance; None where nothing was
    timed."""
    measured: Mean | None
    """Geometric mean of the ratio of speed-ups, after over before, where both are correct and
    timed; 95% bootstrap interval over programs."""
    modelled: Mean | None
    """The same by the cost model."""
    delivered: Mean | None
    """The same by the code that the user gets, over all tasks that were timed in both runs, correct
    or not."""


def compare(before: Path, after: Path) -> list[LevelComparison]:
    """Compare two runs for each level, and for all programs together.

    Args:
        before, after: folders of the runs.

    Raises:
        UsageError: a folder has no records, or the runs have no program in common.
    """
    left, right = (cases_by_key(_lines(folder)) for folder in (before, after))
    compared = compare_cases(left, right)
    if not compared:
        raise UsageError(
            "the runs have no program in common",
            file=str(after),
            remedy="compare runs on the same programs: the same --programs and --levels",
        )
    return compared


def compare_cases(before: Cases, after: Cases) -> list[LevelComparison]:
    """The comparison of each level, and of all tasks together; empty without a common task."""
    common = sorted(before.keys() & after.keys())
    if not common:
        return []
    levels = sorted({key[1] for key in common}, key=lambda name: (len(name), name))
    compared = []
    for level in (*levels, ALL):
        keys = [key for key in common if level in (key[1], ALL)]
        pair = [before[key] for key in keys], [after[key] for key in keys]
        compared.append(_compared(level, *pair))
    return compared


def cases_by_key(cases: Iterable[CaseLine]) -> Cases:
    """The last record of each answer to each task."""
    return {key_of(case): case for case in cases}


def key_of(case: CaseLine) -> Key:
    """The place of a case in its run."""
    return case["suite"], case["level"], case["id"], case.get("sample", 0)


def _lines(folder: Path) -> Iterator[CaseLine]:
    path = folder / RECORDS
    if not path.is_file():
        raise UsageError("no records here", file=str(folder), remedy="run eval synthetic first")
    return record.of_kind(record.read(path, whole=True), CaseLine)


def _compared(level: str, before: Sequence[CaseLine], after: Sequence[CaseLine]) -> LevelComparison:
    pairs = list(zip(before, after, strict=True))
    gained = sum(b["correct"] and not a["correct"] for a, b in pairs)
    lost = sum(a["correct"] and not b["correct"] for a, b in pairs)
    is_timed = any(line.get("optimized") for line in (*before, *after))
    measured = [(speedup(a, EAGER), speedup(b, EAGER)) for a, b in pairs]
    modelled = [(a.get("modelled"), b.get("modelled")) for a, b in pairs]
    delivered = [(over_eager(a), over_eager(b)) for a, b in pairs]
    return LevelComparison(
        level=level,
        programs=len(pairs),
        correct=(sum(a["correct"] for a in before), sum(b["correct"] for b in after)),
        gained=gained,
        lost=lost,
        p_value=mcnemar(gained, lost),
        faster=(_num_faster(before), _num_faster(after)) if is_timed else None,
        measured=_ratio(measured, level, "measured"),
        modelled=_ratio(modelled, level, "modelled"),
        delivered=_ratio(delivered, level, "delivered"),
    )


def over_eager(case: CaseLine) -> float | None:
    """The speed-up of the user's code over PyTorch; None without times."""
    ratio = over(case, EAGER)
    return ratio.value if ratio else None


def _num_faster(cases: Sequence[CaseLine]) -> int:
    return sum(beats(case, EAGER) for case in cases)


def _ratio(speeds: Sequence[tuple[float | None, float | None]], *words: str) -> Mean | None:
    ratios = [after / before for before, after in speeds if before and after]
    return geometric_mean(ratios, *words) if ratios else None


def rows(comparisons: Sequence[LevelComparison]) -> list[tuple[str, ...]]:
    """The comparisons as a table of texts, its head first."""
    head = ("level", "programs", "correct", "gained / lost", "p", "faster", "measured", "modelled")
    return [(*head, "delivered"), *(_row(comparison) for comparison in comparisons)]


def _row(level: LevelComparison) -> tuple[str, ...]:
    faster = "not timed" if level.faster is None else f"{level.faster[0]} to {level.faster[1]}"
    return (
        level.level,
        str(level.programs),
        f"{level.correct[0]} to {level.correct[1]}",
        f"{level.gained} / {level.lost}",
        f"{level.p_value:.2g}",
        faster,
        _text(level.measured),
        _text(level.modelled),
        _text(level.delivered),
    )


def _text(ratio: Mean | None) -> str:
    if ratio is None:
        return "none"
    log = math.log(ratio.value)
    return (
        f"{ratio.value:.2f}x ({ratio.low:.2f} to {ratio.high:.2f}), log {log:+.2f}, n = {ratio.num}"
    )
