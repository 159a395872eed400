"""Advantages of the answers to one program: how each compares with the others.

An answer without a reward (None: a failure of ours) is no member of its group: it changes nothing
for the others and learns nothing.
"""

import math
from collections.abc import Sequence
from statistics import fmean, pstdev

STD_FLOOR = 1e-4
"""Added to a group's standard deviation (TRL's, and DeepSeekMath's order of magnitude)."""


def centred(rewards: Sequence[float | None], *, divides: bool) -> list[float]:
    """reward - mean, by the group's standard deviation where it `divides`: GRPO (Shao et al. 2024,
    section 4.1); without, Dr. GRPO (Liu et al. 2025), and TritonRL's."""
    known = [reward for reward in rewards if reward is not None]
    if len(known) < 2:
        return [0.0] * len(rewards)
    mean, scale = fmean(known), 1.0
    if divides:
        scale = pstdev(known) * math.sqrt(len(known) / (len(known) - 1)) + STD_FLOOR
    return [0.0 if reward is None else (reward - mean) / scale for reward in rewards]


def leave_one_out(rewards: Sequence[float | None]) -> list[float]:
    """reward - mean of the others (Kool et al. 2019): Dr. GRPO's, n / (n - 1) times as large."""
    num = sum(reward is not None for reward in rewards)
    return [
        advantage * num / (num - 1) if num > 1 else 0.0
        for advantage in centred(rewards, divides=False)
    ]


def correct_weights(speeds: Sequence[float | None], *, temperature: float) -> list[float]:
    """Softmax of speed rewards over the correct answers of a group (DRTriton, after eq. 5): w.

    Args:
        speeds: rewards for speed; None where an answer is not correct.
        temperature: lambda.

    Returns:
        Weights that sum to 1 over the correct answers, 0 for the others.
    """
    known = [speed for speed in speeds if speed is not None]
    if not known:
        return [0.0] * len(speeds)
    most = max(known)
    scaled = [0.0 if s is None else math.exp((s - most) / temperature) for s in speeds]
    total = sum(scaled)
    return [weight / total for weight in scaled]
