"""Compares two runs of `eval synthetic` on the same programs: what they solve, and how fast.

Runs are compared program by program. Two runs solve different programs, so mean speed-ups of all
that each solves could not be compared.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.scores import Mean, geometric_mean, mcnemar

RECORDS = "records.jsonl"
ALL = "all"
Key = tuple[str, str, int, int]
"""Suite, level, program, sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelComparison:
    """Programs of one level that both runs have."""

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


def compare(before: Path, after: Path) -> list[LevelComparison]:
    """Compare two runs for each level, and for all programs together.

    Args:
        before, after: folders of the runs.

    Raises:
        UsageError: a folder has no records, or the runs have no program in common.
    """
    left, right = _cases(before), _cases(after)
    common = sorted(left.keys() & right.keys())
    if not common:
        raise UsageError(
            "the runs have no program in common",
            file=str(after),
            remedy="compare runs on the same programs: the same --programs and --levels",
        )
    levels = sorted({key[1] for key in common}, key=lambda name: (len(name), name))
    compared = []
    for level in (*levels, ALL):
        keys = [key for key in common if level in (key[1], ALL)]
        compared.append(_compared(level, [left[key] for key in keys], [right[key] for key in keys]))
    return compared


def _cases(folder: Path) -> Mapping[Key, CaseLine]:
    path = folder / RECORDS
    if not path.is_file():
        raise UsageError("no records here", file=str(folder), remedy="run eval synthetic first")
    return {
        (line["suite"], line["level"], line["id"], line["sample"]): line
        for line in record.of_kind(record.read(path, whole=True), CaseLine)
    }


def _compared(level: str, before: Sequence[CaseLine], after: Sequence[CaseLine]) -> LevelComparison:
    pairs = list(zip(before, after, strict=True))
    gained = sum(b["correct"] and not a["correct"] for a, b in pairs)
    lost = sum(a["correct"] and not b["correct"] for a, b in pairs)
    is_timed = any(line.get("optimized") for line in (*before, *after))
    measured = [(_measured(a), _measured(b)) for a, b in pairs]
    modelled = [(a.get("modelled"), b.get("modelled")) for a, b in pairs]
    return LevelComparison(
        level=level,
        programs=len(pairs),
        correct=(sum(a["correct"] for a in before), sum(b["correct"] for b in after)),
        gained=gained,
        lost=lost,
        p_value=mcnemar(gained, lost),
        faster=(sum(map(_is_faster, before)), sum(map(_is_faster, after))) if is_timed else None,
        measured=_ratio(measured, level, "measured"),
        modelled=_ratio(modelled, level, "modelled"),
    )


def _measured(case: CaseLine) -> float | None:
    """The speed-up over PyTorch of a correct answer; None if it is wrong or was not timed."""
    ours, eager = case.get("optimized"), case.get("eager")
    if not (case["correct"] and ours and eager):
        return None
    return eager["median_ms"] / ours["median_ms"]


def _is_faster(case: CaseLine) -> bool:
    interval = (case.get("speedup_intervals") or {}).get("eager")
    return bool(case["correct"] and interval and interval[0] > 1)


def _ratio(speeds: Sequence[tuple[float | None, float | None]], *words: str) -> Mean | None:
    ratios = [after / before for before, after in speeds if before and after]
    return geometric_mean(ratios, *words) if ratios else None


def rows(comparisons: Sequence[LevelComparison]) -> list[tuple[str, ...]]:
    """The comparisons as a table of texts, its head first."""
    head = ("level", "programs", "correct", "gained / lost", "p", "faster", "measured", "modelled")
    return [head, *(_row(comparison) for comparison in comparisons)]


def _row(found: LevelComparison) -> tuple[str, ...]:
    faster = "not timed" if found.faster is None else f"{found.faster[0]} to {found.faster[1]}"
    return (
        found.level,
        str(found.programs),
        f"{found.correct[0]} to {found.correct[1]}",
        f"{found.gained} / {found.lost}",
        f"{found.p_value:.2g}",
        faster,
        _text(found.measured),
        _text(found.modelled),
    )


def _text(ratio: Mean | None) -> str:
    if ratio is None:
        return "none"
    log = math.log(ratio.value)
    return (
        f"{ratio.value:.2f}x ({ratio.low:.2f} to {ratio.high:.2f}), log {log:+.2f}, n = {ratio.num}"
    )
