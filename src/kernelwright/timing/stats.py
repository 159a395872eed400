"""Medians with an interval, without torch. The verdict's times come from here."""

import random
from collections.abc import Sequence
from statistics import median

from kernelwright.core.seed import derive
from kernelwright.core.verdict import Timing

_NUM_RESAMPLES = 1_000


def summarize(times_ms: Sequence[float], seed: int = 0) -> Timing:
    """Median of the samples with a 95% percentile-bootstrap interval of the median.

    The interval is a deterministic function of samples and seed and always contains the median.
    Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13.

    Raises:
        ValueError: no samples.
    """
    if not times_ms:
        raise ValueError("no samples to summarize")
    rng = random.Random(derive(seed, "bootstrap"))
    count = len(times_ms)
    middle = median(times_ms)
    low, high = _interval([median(rng.choices(times_ms, k=count)) for _ in range(_NUM_RESAMPLES)])
    return Timing(
        median_ms=middle, low_ms=min(middle, low), high_ms=max(middle, high), num_samples=count
    )


def ratio_interval(
    slow_ms: Sequence[float], fast_ms: Sequence[float], seed: int = 0, *, is_paired: bool = False
) -> tuple[float, float]:
    """95% bootstrap interval of median(slow) / median(fast); it contains the ratio itself.
    Excluding 1 means a difference.

    Args:
        is_paired: sample i of both sides was taken side by side. Pairs are then drawn whole, so
            that a drift both share does not widen the interval.

    Raises:
        ValueError: no samples on one side, or pairs with one half missing.
    """
    if not slow_ms or not fast_ms:
        raise ValueError("no samples to compare")
    if is_paired and len(slow_ms) != len(fast_ms):
        raise ValueError("every pair needs both its halves")
    rng = random.Random(derive(seed, "ratio"))
    slow_at, fast_at = range(len(slow_ms)), range(len(fast_ms))
    ratios = []
    for _ in range(_NUM_RESAMPLES):
        left = rng.choices(slow_at, k=len(slow_at))
        right = left if is_paired else rng.choices(fast_at, k=len(fast_at))
        ratios.append(median(slow_ms[i] for i in left) / median(fast_ms[i] for i in right))
    low, high = _interval(ratios)
    ratio = median(slow_ms) / median(fast_ms)
    return min(low, ratio), max(high, ratio)


def noise_floor(times_ms: Sequence[float]) -> float | None:
    """How far two medians of the same calls lie apart, as a share of one: of the even and the odd
    samples of one callable, the 95% bootstrap bound of |ratio - 1|. None below two samples."""
    if len(times_ms) < 2:
        return None
    return max(abs(bound - 1.0) for bound in ratio_interval(times_ms[::2], times_ms[1::2]))


def _interval(resampled: list[float]) -> tuple[float, float]:
    ordered = sorted(resampled)
    return ordered[round(0.025 * _NUM_RESAMPLES)], ordered[round(0.975 * _NUM_RESAMPLES) - 1]
