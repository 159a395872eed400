"""What a user gets for a benchmark task, and how fast that is: functions of its record alone.

The record's "form" names what `optimized.py` runs. The record of an older run has no form: a case
whose kernels were kept delivered them, and in any other case the user got the original.
"""

from dataclasses import dataclass

from kernelwright.core.record import Record

KERNELS, COMPILED_KERNELS = "kernels", "compiled_kernels"
"""Forms: eager calls with our kernels, and torch.compile around our kernels."""
COMPILED, ORIGINAL = "compiled", "original"
"""Forms without kernels of ours: torch.compile of the unchanged model, and the model as it was."""
OURS = (KERNELS, COMPILED_KERNELS)

EAGER, COMPILE, BETTER = "eager", "compiled", "better"
"""Baselines: PyTorch, torch.compile in its default mode, and the faster of the two.

The first two are names of times in records.
"""
TIMED = "optimized"
"""The name in records of the time of what is delivered."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of a baseline over the time of what is delivered."""

    value: float
    interval: tuple[float, float] | None = None
    """95%, from turns that both took; None where the record has none, or the ratio is exact."""


def form_of(case: Record) -> str:
    """The form of a case: one of the four names above."""
    if form := case.get("form"):
        return str(form)
    is_kept = case["correct"] and case.get("kept", True) and case.get("has_triton", True)
    return KERNELS if is_kept else ORIGINAL


def delivers_kernels(case: Record) -> bool:
    """Whether the user gets kernels of ours."""
    return form_of(case) in OURS


def may_win(case: Record) -> bool:
    """Whether a time of the case can be a win of ours; a fast torch.compile is none.

    In an older record the time is that of our kernels, also where they were not kept.
    """
    return not case.get("form") or delivers_kernels(case)


def delivered_ms(case: Record) -> float | None:
    """The median time of a call as delivered; None where the record does not have it."""
    form = form_of(case)
    if form == ORIGINAL:
        return _median_ms(case, EAGER)
    taken_ms = _median_ms(case, TIMED)
    return _median_ms(case, COMPILE) if taken_ms is None and form == COMPILED else taken_ms


def over(case: Record, baseline: str) -> Ratio | None:
    """How much faster the delivered form is than a baseline; None where a time is missing.

    A form that is itself the baseline has the ratio 1, exactly, unless both were timed.

    Args:
        baseline: `BETTER`, or the name of a time in the record. `BETTER` asks for both times, and
            for the time of PyTorch alone where torch.compile has none. Each end of its interval is
            the smaller of both intervals' ends.
    """
    if baseline == BETTER:
        names = (EAGER, COMPILE) if case.get(COMPILE) else (EAGER,)
        return _smallest([over(case, name) for name in names])
    form = form_of(case)
    if form == ORIGINAL and baseline == EAGER and (case.get(EAGER) or case.get(COMPILE)):
        return Ratio(1.0)
    theirs_ms, ours_ms = _median_ms(case, baseline), delivered_ms(case)
    if theirs_ms is None or ours_ms is None:
        return None
    is_timed = form != ORIGINAL and bool(case.get(TIMED))
    ends = (case.get("speedup_intervals") or {}).get(baseline) if is_timed else None
    return Ratio(theirs_ms / ours_ms, (ends[0], ends[1]) if ends else None)


def _smallest(ratios: list[Ratio | None]) -> Ratio | None:
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) < len(ratios):
        return None
    intervals = [ratio.interval for ratio in known if ratio.interval is not None]
    value = min(ratio.value for ratio in known)
    if len(intervals) < len(known):
        return Ratio(value)
    return Ratio(value, (min(low for low, _ in intervals), min(high for _, high in intervals)))


def _median_ms(case: Record, name: str) -> float | None:
    timing = case.get(name)
    return float(timing["median_ms"]) if timing else None
