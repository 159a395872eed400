"""What a benchmark is summed up by: pure functions of speed-ups and of counts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.core.seed import derive

NUM_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Mean:
    """A geometric mean with its 95% bootstrap interval over tasks."""

    value: float
    low: float
    high: float
    num: int
    """Tasks that it is over."""


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
    return sum(each is not None and each > p for each in speedups) / len(speedups)


def geometric_mean(ratios: Sequence[float], *seed_words: str) -> Mean:
    """With an interval that is a function of the ratios and the seed's words alone.

    Raises:
        ValueError: there are no ratios, or one is not above 0.
    """
    if not ratios or min(ratios) <= 0:
        raise ValueError("needs ratios above 0")
    logs = np.log(np.array(ratios))
    rng = np.random.default_rng(derive(0, *seed_words))
    means = rng.choice(logs, (NUM_RESAMPLES, len(logs))).mean(axis=1)
    low, high = np.exp(np.percentile(means, [2.5, 97.5]))
    return Mean(float(np.exp(logs.mean())), float(low), float(high), len(ratios))


def as_used(speedups: Sequence[float | None]) -> list[float]:
    """Speed-ups as a user has them: a task that was not won stays as it was, at 1.0."""
    return [1.0 if each is None else each for each in speedups]


def pass_at_k(num: int, correct: int, k: int) -> float:
    """Chance that at least one of `k` samples is correct, from `num` samples of one task.

    The unbiased estimate 1 - C(num - correct, k) / C(num, k): Chen et al. 2021 (arXiv 2107.03374).

    Raises:
        ValueError: not 0 <= correct <= num and 1 <= k <= num.
    """
    if not (0 <= correct <= num and 1 <= k <= num):
        raise ValueError(f"no {k} of {num} samples, {correct} of them correct")
    return 1.0 - math.comb(num - correct, k) / math.comb(num, k)
