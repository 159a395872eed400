"""The code that a user gets for a benchmark task, and its speed, by the task's record alone.

The record's "form" names what `optimized.py` runs. The record of an older run has no form: a case
whose kernels were kept delivered them, and in any other case the user got the original.
"""

from dataclasses import dataclass
from typing import Final, cast

from kernelwright.core.kinds.fields import TimingFields
from kernelwright.core.kinds.suites import CaseLine

KERNELS, COMPILED_KERNELS = "kernels", "compiled_kernels"
"""Forms: eager calls with our kernels, and torch.compile around our kernels."""
COMPILED, ORIGINAL = "compiled", "original"
"""Forms without kernels of ours: torch.compile of the unchanged model, and the model as it was."""
OURS = (KERNELS, COMPILED_KERNELS)
COMPUTED_BY = {
    KERNELS: "own kernels",
    COMPILED_KERNELS: "own kernels and torch.compile",
    COMPILED: "torch.compile",
    ORIGINAL: "PyTorch",
}
"""The code that computes the result of each form, in words."""

EAGER: Final = "eager"
COMPILE: Final = "compiled"
BETTER: Final = "better"
"""Baselines: PyTorch, torch.compile in its default mode, and the faster of the two.

The first two are names of times in records.
"""
TIMED: Final = "optimized"
"""The name in records of the time of what is delivered. Where the original is delivered, that time
is of a right kernel that was not kept, if there is one."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of a baseline over the time of what is delivered."""

    value: float
    interval: tuple[float, float] | None = None
    """95%, from turns that both took; None where the record has none, or the ratio is exact."""


def form_of(case: CaseLine) -> str:
    """The form of a case: one of the four names above."""
    if form := case.get("form"):
        return str(form)
    is_kept = case["correct"] and case.get("kept", True) and case.get("has_triton", True)
    return KERNELS if is_kept else ORIGINAL


def delivers_kernels(case: CaseLine) -> bool:
    """Whether the user gets kernels of ours."""
    return form_of(case) in OURS


def may_win(case: CaseLine) -> bool:
    """Whether the recorded time is that of our kernels, and so can count as a win of ours.

    A delivered torch.compile is not. In an older record the time is always that of our kernels,
    even if they were not kept.
    """
    return not case.get("form") or delivers_kernels(case)


def delivered_timing(case: CaseLine) -> TimingFields | None:
    """The time of a call as delivered, in ms; None where the record does not have it."""
    form = form_of(case)
    if form == ORIGINAL:
        return case.get(EAGER)
    return case.get(TIMED) or (case.get(COMPILE) if form == COMPILED else None)


def timing_of(case: CaseLine, name: str) -> TimingFields | None:
    """The times of a baseline, or of what is delivered, by the name of their field."""
    return cast(TimingFields | None, case.get(name))


def measured(case: CaseLine, baseline: str) -> Ratio | None:
    """The time of a baseline over the time that was taken of `optimized.py`, or of a right kernel
    where the original is delivered; None where a time is missing.

    Args:
        baseline: as of `over`.
    """
    if baseline == BETTER:
        return _smallest([measured(case, name) for name in _both(case)])
    theirs_ms, ours_ms = _median_ms(case, baseline), _median_ms(case, TIMED)
    if theirs_ms is None or ours_ms is None:
        return None
    ends = (case.get("speedup_intervals") or {}).get(baseline)
    return Ratio(theirs_ms / ours_ms, (ends[0], ends[1]) if ends else None)


def over(case: CaseLine, baseline: str) -> Ratio | None:
    """How much faster than a baseline the user's result is; None where a time is missing.

    A form that is itself the baseline has the ratio 1, exactly, unless both were timed.

    Args:
        baseline: `BETTER`, or the name of a time in the record. `BETTER` gives the smaller
            ratio of PyTorch and torch.compile, or of PyTorch where torch.compile has no time.
            Each end of the interval is the smaller end of the two intervals.
    """
    form = form_of(case)
    if form in OURS or (form == COMPILED and case.get(TIMED)):
        return measured(case, baseline)
    return _of_baseline(case, COMPILE if form == COMPILED else EAGER, baseline)


def unchanged(case: CaseLine, baseline: str) -> Ratio | None:
    """As `over`, had no kernel been delivered: of PyTorch in an older record, and of the faster of
    PyTorch and torch.compile in a record with a form."""
    eager_ms, compiled_ms = _median_ms(case, EAGER), _median_ms(case, COMPILE)
    is_compiled = case.get("form") and eager_ms and compiled_ms and compiled_ms < eager_ms
    return _of_baseline(case, COMPILE if is_compiled else EAGER, baseline)


def _of_baseline(case: CaseLine, own: str, baseline: str) -> Ratio | None:
    """The time of `baseline` over the time of `own`, the baseline that the user gets."""
    if baseline == BETTER:
        return _smallest([_of_baseline(case, own, name) for name in _both(case)])
    if baseline == own and (case.get(EAGER) or case.get(COMPILE)):
        return Ratio(1.0)
    theirs_ms, own_ms = _median_ms(case, baseline), _median_ms(case, own)
    return None if theirs_ms is None or own_ms is None else Ratio(theirs_ms / own_ms)


def _both(case: CaseLine) -> tuple[str, ...]:
    return (EAGER, COMPILE) if case.get(COMPILE) else (EAGER,)


def _smallest(ratios: list[Ratio | None]) -> Ratio | None:
    """The smallest ratio, each end of its interval the smallest of that end. None if a ratio is
    missing; without an interval if one is missing."""
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) < len(ratios):
        return None
    intervals = [ratio.interval for ratio in known if ratio.interval is not None]
    value = min(ratio.value for ratio in known)
    if len(intervals) < len(known):
        return Ratio(value)
    return Ratio(value, (min(low for low, _ in intervals), min(high for _, high in intervals)))


def _median_ms(case: CaseLine, name: str) -> float | None:
    timing = timing_of(case, name)
    return float(timing["median_ms"]) if timing else None
