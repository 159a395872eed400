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
    medians = sorted(median(rng.choices(times_ms, k=count)) for _ in range(_NUM_RESAMPLES))
    middle = median(times_ms)
    return Timing(
        median_ms=middle,
        low_ms=min(middle, medians[round(0.025 * _NUM_RESAMPLES)]),
        high_ms=max(middle, medians[round(0.975 * _NUM_RESAMPLES) - 1]),
        num_samples=count,
    )


def ratio_interval(
    slow_ms: Sequence[float], fast_ms: Sequence[float], seed: int = 0
) -> tuple[float, float]:
    """95% bootstrap interval of median(slow) / median(fast). Excluding 1 means a difference.

    Raises:
        ValueError: no samples on one side.
    """
    if not slow_ms or not fast_ms:
        raise ValueError("no samples to compare")
    rng = random.Random(derive(seed, "ratio"))
    ratios = sorted(
        median(rng.choices(slow_ms, k=len(slow_ms))) / median(rng.choices(fast_ms, k=len(fast_ms)))
        for _ in range(_NUM_RESAMPLES)
    )
    return ratios[round(0.025 * _NUM_RESAMPLES)], ratios[round(0.975 * _NUM_RESAMPLES) - 1]
