"""Medians with an interval, without torch. The verdict's times come from here."""

from collections.abc import Sequence
from statistics import median

import numpy as np

from kernelwright.core.seed import derive
from kernelwright.core.verdict import Timing

_NUM_RESAMPLES = 1_000


def summarize(times_ms: Sequence[float], seed: int = 0) -> Timing:
    """Returns the median of the samples, with a 95% percentile-bootstrap interval of the median.

    The interval is a deterministic function of samples and seed and always contains the median.
    Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13.

    Raises:
        ValueError: no samples.
    """
    if not times_ms:
        raise ValueError("no samples to summarize")
    middle = median(times_ms)
    rng = np.random.default_rng(derive(seed, "bootstrap"))
    low, high = _interval(_medians(times_ms, _resamples(rng, len(times_ms))))
    return Timing(
        median_ms=middle,
        low_ms=min(middle, low),
        high_ms=max(middle, high),
        num_samples=len(times_ms),
    )


def ratio_interval(
    slow_ms: Sequence[float], fast_ms: Sequence[float], *, is_paired: bool = False
) -> tuple[float, float]:
    """Returns the 95% bootstrap interval of median(slow) / median(fast), which contains the ratio
    itself. The sides differ if the interval excludes 1.

    Args:
        is_paired: sample i of both sides was taken side by side. Pairs are then drawn whole, so
            that a drift that both share does not widen the interval.

    Raises:
        ValueError: no samples on one side, or pairs with one half missing.
    """
    if not slow_ms or not fast_ms:
        raise ValueError("no samples to compare")
    if is_paired and len(slow_ms) != len(fast_ms):
        raise ValueError("every pair needs both its halves")
    rng = np.random.default_rng(derive(0, "ratio"))
    left = _resamples(rng, len(slow_ms))
    right = left if is_paired else _resamples(rng, len(fast_ms))
    low, high = _interval(_medians(slow_ms, left) / _medians(fast_ms, right))
    ratio = median(slow_ms) / median(fast_ms)
    return min(low, ratio), max(high, ratio)


def noise_floor(times_ms: Sequence[float]) -> float | None:
    """Returns how far two medians of the same calls lie apart, as a share of one. The even and the
    odd samples of one callable are compared: the result is the 95% bootstrap bound of |ratio - 1|.
    None below two samples."""
    if len(times_ms) < 2:
        return None
    return max(abs(bound - 1.0) for bound in ratio_interval(times_ms[::2], times_ms[1::2]))


def _resamples(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draws positions of samples with replacement, (resamples, count)."""
    return rng.integers(count, size=(_NUM_RESAMPLES, count))


def _medians(times_ms: Sequence[float], places: np.ndarray) -> np.ndarray:
    medians: np.ndarray = np.median(np.asarray(times_ms)[places], axis=1)
    return medians


def _interval(resampled: np.ndarray) -> tuple[float, float]:
    ordered = np.sort(resampled)
    low, high = ordered[[round(0.025 * _NUM_RESAMPLES), round(0.975 * _NUM_RESAMPLES) - 1]]
    return float(low), float(high)
