"""Advantages: compares the rewards of the answers to one program with each other.

A reward of None means that our side failed. Such an answer is not a member of its group: it has no
advantage, and does not change those of others.
"""

import math
from collections.abc import Sequence
from statistics import fmean, pstdev

STD_FLOOR = 1e-4
"""Added to a group's standard deviation (TRL's, and DeepSeekMath's order of magnitude)."""


def centred(rewards: Sequence[float | None], *, divides: bool) -> list[float]:
    """Advantages reward - mean of the group, one for each reward; 0 for None.

    Args:
        rewards: of the answers to one program; None where our side failed.
        divides: divide by the group's standard deviation, as GRPO does (Shao et al. 2024, section
            4.1). Dr. GRPO (Liu et al. 2025) and TritonRL do not.
    """
    known = [reward for reward in rewards if reward is not None]
    if len(known) < 2:
        return [0.0] * len(rewards)
    mean, scale = fmean(known), 1.0
    if divides:
        # The deviation of a sample, with n - 1: torch.std, which TRL calls, divides so.
        scale = pstdev(known) * math.sqrt(len(known) / (len(known) - 1)) + STD_FLOOR
    return [0.0 if reward is None else (reward - mean) / scale for reward in rewards]


def leave_one_out(rewards: Sequence[float | None]) -> list[float]:
    """Advantages reward - mean of the other rewards of the group (Kool et al. 2019).

    They are Dr. GRPO's times n / (n - 1), where n counts the rewards that are not None.
    """
    num = sum(reward is not None for reward in rewards)
    return [
        advantage * num / (num - 1) if num > 1 else 0.0
        for advantage in centred(rewards, divides=False)
    ]


def correct_weights(speeds: Sequence[float | None], *, temperature: float) -> list[float]:
    """Softmax of speed rewards over the correct answers of a group: w of DRTriton's equation 5.

    With log(speed-up) as reward, w is proportional to speed-up^(1 / temperature).

    Args:
        speeds: rewards for speed; None where an answer is not correct.
        temperature: lambda of the paper.

    Returns:
        Weights that sum to 1 over the correct answers, 0 for the others.
    """
    known = [speed for speed in speeds if speed is not None]
    if not known:
        return [0.0] * len(speeds)
    most = max(known)  # subtracted below: exp overflows for large rewards over a small lambda
    scaled = [0.0 if s is None else math.exp((s - most) / temperature) for s in speeds]
    total = sum(scaled)
    return [weight / total for weight in scaled]
