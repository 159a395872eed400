"""Rewards of the three papers: pure functions of an outcome.

A reward has a part for the tokens of the plan and a part for the tokens of the code. Where a paper
gives every token the same reward, both parts are equal. A wrong answer earns nothing for its speed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from kernelwright.rewards.outcome import Outcome, Reached

MODELLED = "modelled"
"""The one reward that reads an estimate in place of a time."""
CREDIT = MappingProxyType(
    {
        Reached.NOTHING: 0.0,
        Reached.READABLE: 0.05,
        Reached.PARSED: 0.1,
        Reached.COMPILED: 0.2,
        Reached.RAN: 0.3,
        Reached.CORRECT: 1.0,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardSettings:
    """Numbers of the papers' formulas, with the values that the papers prefer."""

    power: float = 1.0
    """DRTriton's alpha in f = s^alpha: 0.25, 0.5, 0.75 and 1 in the paper."""
    correct_share: float = 0.3
    """TritonRL's beta: the share of correctness in the reward `mixed`."""
    max_speedup: float = 2.0
    """TritonRL's cap: more speed-up than this earns no more."""


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of one answer, apart for the tokens of its plan and of its code."""

    plan: float
    code: float

    @classmethod
    def uniform(cls, value: float) -> "Reward":
        """The same for every token."""
        return cls(value, value)


def rule_and_execution(outcome: Outcome) -> Reward:
    """1 for an answer that is Triton and passes its tests, else 0 (AutoTriton, section 3.3)."""
    return Reward.uniform(float(outcome.is_valid and outcome.is_correct))


def hierarchical(outcome: Outcome, *, max_speedup: float) -> Reward:
    """Correctness for the code, clipped speed-up for the plan (TritonRL)."""
    return Reward(plan=_clipped(outcome, max_speedup), code=float(outcome.is_correct))


def mixed(outcome: Outcome, *, correct_share: float, max_speedup: float) -> Reward:
    """A share of correctness, the rest clipped speed-up, for every token (TritonRL's comparator;
    0.3 was the best share)."""
    correct = float(outcome.is_correct)
    clipped = _clipped(outcome, max_speedup)
    return Reward.uniform(correct_share * correct + (1 - correct_share) * clipped)


def log_speed(outcome: Outcome) -> Reward:
    """log of the speed-up of a correct answer, 0 of a wrong one (DRTriton, f = log). DRPO weighs
    correct answers by this reward and reads it of no others."""
    return Reward.uniform(math.log(outcome.speedup) if outcome.is_correct else 0.0)


def power_speed(outcome: Outcome, *, power: float) -> Reward:
    """speed-up^power of a correct answer, 0 of a wrong one (DRTriton's other f)."""
    return Reward.uniform(outcome.speedup**power if outcome.is_correct else 0.0)


def one_plus_log(outcome: Outcome) -> Reward:
    """1 + log(speed-up) of a correct answer, 0 of a wrong one: DRTriton's baseline for GRPO
    (appendix H). As published, a correct answer below 1/e of PyTorch's speed earns less than 0."""
    return Reward.uniform(1 + math.log(outcome.speedup) if outcome.is_correct else 0.0)


def one_plus_power(outcome: Outcome, *, power: float) -> Reward:
    """1 + speed-up^power of a correct answer, 0 of a wrong one: the same baseline, other f."""
    return Reward.uniform(1 + outcome.speedup**power if outcome.is_correct else 0.0)


def modelled(outcome: Outcome) -> Reward:
    """log of the estimated speed-up of a correct answer, 0 of a wrong one. It is for machines
    without a GPU: correctness is the judge's, speed is a cost model's."""
    is_known = outcome.is_correct and outcome.modelled is not None
    return Reward.uniform(math.log(outcome.modelled or 1.0) if is_known else 0.0)


def partial_credit(outcome: Outcome, *, credit: Mapping[Reached, float] = CREDIT) -> Reward:
    """Credit by how far the answer came; nothing for a cheat."""
    return Reward.uniform(0.0 if outcome.cheats else credit[outcome.reached])


def _clipped(outcome: Outcome, max_speedup: float) -> float:
    return min(outcome.speedup, max_speedup) if outcome.is_correct else 0.0


RewardFunction = Callable[[Outcome], Reward]


def rewards(settings: RewardSettings) -> Mapping[str, RewardFunction]:
    """Every reward by the name that recipes use."""
    cap, power = settings.max_speedup, settings.power
    share = settings.correct_share
    return MappingProxyType(
        {
            "rule_and_execution": rule_and_execution,
            "hierarchical": partial(hierarchical, max_speedup=cap),
            "mixed": partial(mixed, correct_share=share, max_speedup=cap),
            "log_speed": log_speed,
            "power_speed": partial(power_speed, power=power),
            "one_plus_log": one_plus_log,
            "one_plus_power": partial(one_plus_power, power=power),
            MODELLED: modelled,
            "partial_credit": partial_credit,
        }
    )


REWARDS = rewards(RewardSettings())
"""Every reward with the papers' settings."""
SPEED_REWARDS = frozenset({"log_speed", "power_speed", MODELLED})
"""Rewards that order correct answers alone: `drpo` reads them of no other answer."""
SIGNED_REWARDS = frozenset({"log_speed", MODELLED})
"""Rewards below 0 for a slow correct answer, while a wrong answer earns 0."""
