"""The summary figures of a benchmark: pure functions of speed-ups and of counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.core.seed import derive

NUM_RESAMPLES = 10_000
MOST_DRAWN = 4_000_000
"""The most ratios that are drawn at once: means of many tasks would need too much memory."""
NORMAL_975 = 1.959964
"""Quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over tasks, or a difference of two, with its 95% interval."""

    value: float
    low: float
    high: float
    num: int
    """The number of tasks that the score covers."""


def fast_p(speedups: Sequence[float | None], p: float) -> float:
    """Share of tasks that are correct and more than `p` times as fast as the baseline.

    KernelBench (arXiv 2502.10517), section 3.3.

    Args:
        speedups: one a task; None where there is no correct answer.

    Raises:
        ValueError: there are no tasks.
    """
    if not speedups:
        raise ValueError("no tasks")
    return sum(speedup is not None and speedup > p for speedup in speedups) / len(speedups)


def geometric_mean(ratios: Sequence[float], *seed_words: str) -> Mean:
    """Geometric mean of ratios, with a 95% bootstrap interval over tasks.

    Args:
        seed_words: name the stream of resampling: equal ratios and words give equal intervals.

    Raises:
        ValueError: there are no ratios, or one is not above 0.
    """
    if not ratios or min(ratios) <= 0:
        raise ValueError("needs ratios above 0")
    logs = np.log(np.array(ratios))
    rng = np.random.default_rng(derive(0, *seed_words))
    at_once = max(1, MOST_DRAWN // len(logs))
    sizes = [min(at_once, NUM_RESAMPLES - start) for start in range(0, NUM_RESAMPLES, at_once)]
    means = np.concatenate([rng.choice(logs, (size, len(logs))).mean(axis=1) for size in sizes])
    low, high = np.exp(np.percentile(means, [2.5, 97.5]))
    return Mean(float(np.exp(logs.mean())), float(low), float(high), len(ratios))


def pass_at_k(num: int, correct: int, k: int) -> float:
    """Chance that at least one of `k` samples is correct, from `num` samples of one task.

    The unbiased estimate 1 - C(num - correct, k) / C(num, k): Chen et al. 2021 (arXiv 2107.03374).

    Raises:
        ValueError: not 0 <= correct <= num and 1 <= k <= num.
    """
    if not (0 <= correct <= num and 1 <= k <= num):
        raise ValueError(f"no {k} of {num} samples, {correct} of them correct")
    return 1.0 - math.comb(num - correct, k) / math.comb(num, k)


def best_of_k(values: Sequence[float], k: int) -> float:
    """Mean of the largest of `k` values, over all choices of k of them: pass@k for values.

    Raises:
        ValueError: not 1 <= k <= the number of values.
    """
    if not 1 <= k <= len(values):
        raise ValueError(f"no {k} of {len(values)} values")
    ranked = enumerate(sorted(values))
    chances = (value * math.comb(rank, k - 1) for rank, value in ranked)  # it is the largest of k
    return sum(chances) / math.comb(len(values), k)


def mean_share(shares: Sequence[float]) -> Mean:
    """Mean of shares, one a task, with Wilson's interval: it has a width at 0 and 1 too.

    The interval takes tasks as single trials: too wide where shares are of several samples.

    Raises:
        ValueError: there are no shares.
    """
    if not shares:
        raise ValueError("no tasks")
    num = len(shares)
    value = sum(shares) / num
    z2 = NORMAL_975**2 / num
    middle = (value + z2 / 2) / (1 + z2)
    half = math.sqrt(value * (1 - value) * z2 + z2 * z2 / 4) / (1 + z2)
    return Mean(value, max(0.0, middle - half), min(1.0, middle + half), num)


def gap(one: Mean, other: Mean) -> Mean:
    """The difference of two mean shares over different tasks, one less other.

    The interval is Newcombe's, from the intervals of both (Newcombe 1998, method 10). `num` is the
    smaller number of tasks.
    """
    value = one.value - other.value
    below = math.hypot(one.value - one.low, other.high - other.value)
    above = math.hypot(one.high - one.value, other.value - other.low)
    return Mean(value, value - below, value + above, min(one.num, other.num))


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value of McNemar's test (1947).

    It is the probability of a split of changed tasks that is at least as uneven, if gains and
    losses were equally likely.

    Args:
        gained: tasks that only the second of two runs solved.
        lost: tasks that only the first solved.

    Raises:
        ValueError: a number below 0.
    """
    if min(gained, lost) < 0:
        raise ValueError(f"{gained} gained and {lost} lost")
    changed, fewer = gained + lost, min(gained, lost)
    tail: float = sum(math.comb(changed, k) for k in range(fewer + 1)) / 2**changed
    return min(1.0, 2 * tail)
