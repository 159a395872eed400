"""Rewards of the three papers: pure functions of an outcome.

A reward has a part for the tokens of the plan and one for those of the code; where a paper gives
every token the same, both are the same. Nothing that is not correct earns for its speed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from kernelwright.rewards.outcome import Outcome, Reached

MAX_SPEEDUP = 2.0
"""What more speed-up than this earns is no more (TritonRL v2)."""
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


@dataclass(frozen=True, slots=True)
class Reward:
    plan: float
    code: float

    @classmethod
    def uniform(cls, value: float) -> "Reward":
        """The same for every token."""
        return cls(value, value)


def rule_and_execution(outcome: Outcome) -> Reward:
    """1 for what is Triton and passes its tests, else 0 (AutoTriton)."""
    return Reward.uniform(float(outcome.is_valid and outcome.is_correct))


def hierarchical(outcome: Outcome, *, max_speedup: float = MAX_SPEEDUP) -> Reward:
    """Correctness for the code, clipped speed-up for the plan (TritonRL)."""
    return Reward(plan=_clipped(outcome, max_speedup), code=float(outcome.is_correct))


def mixed(outcome: Outcome, *, beta: float, max_speedup: float = MAX_SPEEDUP) -> Reward:
    """beta of correctness and 1 - beta of clipped speed-up, for every token (TritonRL's comparator;
    beta 0.3 was its best)."""
    correct = float(outcome.is_correct)
    return Reward.uniform(beta * correct + (1 - beta) * _clipped(outcome, max_speedup))


def log_speed(outcome: Outcome) -> Reward:
    """log of the speed-up of what is correct, 0 of the rest (DRTriton, f = log). DRPO weighs
    correct answers by it and asks nothing of the others."""
    return Reward.uniform(math.log(outcome.speedup) if outcome.is_correct else 0.0)


def power_speed(outcome: Outcome, *, alpha: float) -> Reward:
    """speed-up to the power of alpha, of what is correct (DRTriton's other f)."""
    return Reward.uniform(outcome.speedup**alpha if outcome.is_correct else 0.0)


def partial_credit(outcome: Outcome, *, credit: Mapping[Reached, float] = CREDIT) -> Reward:
    """By how far the answer came; nothing for what cheats."""
    return Reward.uniform(0.0 if outcome.cheats else credit[outcome.reached])


def _clipped(outcome: Outcome, max_speedup: float) -> float:
    return min(outcome.speedup, max_speedup) if outcome.is_correct else 0.0


REWARDS: Mapping[str, Callable[[Outcome], Reward]] = MappingProxyType(
    {
        "rule_and_execution": rule_and_execution,
        "hierarchical": hierarchical,
        "mixed": partial(mixed, beta=0.3),
        "log_speed": log_speed,
        "power_speed": partial(power_speed, alpha=1.0),
        "partial_credit": partial_credit,
    }
)
"""By the names that recipes use, with the papers' settings."""
