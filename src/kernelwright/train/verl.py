"""Our rewards and advantages in the forms that verl asks for. verl itself is not imported.

`compute_score` is a custom reward function. `register` adds advantage estimators to verl's
registry. verl has one number for an answer, on its last token. `token_rewards` lays out the two
numbers that `hrd` needs. docs/elsewhere.md has the settings.

Shapes: B answers of at most T tokens. A reward of NaN means that an answer has no reward: a fault
of ours prevented the judgement, or the judge cannot use the program as a reference. Such an answer
does not belong to its group, and nothing is learnt from it.
"""

import asyncio
import atexit
import json
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from kernelwright.core import strict
from kernelwright.policy.answer import read_answer
from kernelwright.rewards.advantages import centred
from kernelwright.rewards.outcome import Outcome
from kernelwright.train.elsewhere import ORIGIN, outcome_of, reward_named
from kernelwright.train.objectives import by_token
from kernelwright.verify.many.pools import local_pools
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.standing import StandingJudges

Tensor = torch.Tensor
Estimated = tuple[Tensor, Tensor]
"""Advantages and returns, (B, T) each. They are equal, because no critic learns from returns."""
Registry = Callable[[str], Callable[[Callable[..., Estimated]], Any]]
"""`verl.trainer.ppo.core_algos.register_adv_est`."""


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Any = None,
    *,
    reward: str = "rule_and_execution",
    workers: int | None = None,
    **how: Any,
) -> dict[str, float]:
    """The rewards of an answer. verl awaits many answers at the same time.

    The first call in a process starts the judges of the process.

    Args:
        data_source, extra_info: not used.
        solution_str: the answer.
        ground_truth: the program's canonical text.
        reward: a name in `rewards.REWARDS`.
        workers: the number of judges; None: one for each core.
        how: fields of `verify.many.recipe.JudgeRecipe`: device, precision, mode, grade, timing ...

    Returns:
        "plan" and "code": the rewards of both parts; "score": the same as "code"; "correct": 0 or
        1; "speedup": 1 if nothing was timed. All are NaN if the answer has no reward.

    Raises:
        UsageError: no such reward, or judges cannot be started with these settings.
        InfraError: a fault of ours prevents the start of judges.
    """
    del data_source, extra_info
    rewards = reward_named(reward)
    candidate = read_answer(solution_str, origin=ORIGIN).candidate
    outcome: Outcome | None = Outcome.of(None)
    if candidate is not None:
        judges = _judges(workers, json.dumps(how, sort_keys=True))
        (future,) = judges.judge(ground_truth, [candidate.source])
        outcome = outcome_of(await asyncio.wrap_future(future), ground_truth)
    if outcome is None:
        return dict.fromkeys(("score", "plan", "code", "correct", "speedup"), math.nan)
    earned = rewards(outcome)
    return {
        "score": earned.code,
        "plan": earned.plan,
        "code": earned.code,
        "correct": float(outcome.is_correct),
        "speedup": outcome.speedup,
    }


@cache
def _judges(workers: int | None, how: str) -> StandingJudges:
    """The judges of this process for these settings. They are started once, and stop when the
    process ends."""
    judges = StandingJudges(
        local_pools(strict.read(JudgeRecipe, json.loads(how)).resolved(), workers)
    )
    judges.__enter__()
    atexit.register(judges.__exit__, None, None, None)
    return judges


def register(register_adv_est: Registry, *, alpha: float, divides: bool = False) -> None:
    """Register `kernelwright_grpo` and `kernelwright_hrd` as values of verl's
    `algorithm.adv_estimator`.

    Args:
        register_adv_est: verl's function of this name.
        alpha: factor of the plan's advantage, for `hrd`.
        divides: whether advantages are divided by the standard deviation of the group's rewards.
    """
    register_adv_est("kernelwright_grpo")(partial(grpo, divides=divides))
    register_adv_est("kernelwright_hrd")(partial(hrd, alpha=alpha, divides=divides))


def grpo(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    *,
    divides: bool = False,
    **_: Any,
) -> Estimated:
    """The advantage of each answer within its group, on all of the answer's tokens (GRPO).

    Args:
        token_level_rewards: (B, T). The sum over an answer's tokens is its reward.
        response_mask: (B, T), 1 on tokens that the model wrote.
        index: (B,) keys; answers to the same prompt have equal keys.
        divides: whether advantages are divided by the standard deviation of the group's rewards.

    Returns:
        Advantages and returns, (B, T) each and equal.
    """
    advantages = _compared(token_level_rewards.sum(-1), index, divides=divides)
    spread = advantages[:, None] * response_mask
    return spread, spread


def hrd(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    *,
    alpha: float,
    divides: bool = False,
    **_: Any,
) -> Estimated:
    """The advantage of each token: alpha times the plan's advantage on tokens of the plan, and the
    code's advantage on all other tokens (TritonRL).

    Args:
        token_level_rewards: (B, T), as `token_rewards` lays them out. A KL penalty must not have
            been subtracted: any number but 0 before the last token is read as a plan's reward.
        response_mask, index, divides: as for `grpo`.
        alpha: factor of the plan's advantage.

    Returns:
        Advantages and returns, (B, T) each and equal.
    """
    last = _last(response_mask)[:, None]
    places = torch.arange(response_mask.shape[1], device=last.device)
    code = token_level_rewards.gather(1, last)[:, 0]
    # The last token has the code's reward. Before it only the plan's mark differs from 0.
    marked = (token_level_rewards != 0) & (places < last)
    end = marked.int().argmax(-1, keepdim=True)
    plan = token_level_rewards.gather(1, end)[:, 0] - 1
    has_plan = marked.any(-1)
    spread = by_token(
        _compared(plan.where(has_plan, math.nan), index, divides=divides),
        _compared(code, index, divides=divides),
        has_plan[:, None] & (places <= end),
        alpha=alpha,
    )
    spread = spread * response_mask
    return spread, spread


def token_rewards(
    plan: Sequence[float], code: Sequence[float], plan_lengths: Sequence[int], mask: Tensor
) -> Tensor:
    """Put the two rewards of each answer on two of its tokens, from which `hrd` reads them.

    The code's reward stands on the answer's last token. The plan's reward plus 1 stands on the last
    token of the plan. Without the 1, `hrd` could not find a plan that earned 0.

    Args:
        plan, code: (B,) rewards.
        plan_lengths: (B,) numbers of tokens up to the end of the plan; 0 for an answer without a
            plan. A plan without tokens after it counts as no plan.
        mask: (B, T), 1 on tokens that the model wrote.

    Returns:
        (B, T) float32.
    """
    rewards = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    rows = zip(plan, code, plan_lengths, _last(mask).tolist(), strict=True)
    for row, (of_plan, of_code, length, last) in enumerate(rows):
        rewards[row, last] = of_code
        if 0 < length <= last:
            rewards[row, length - 1] = 1 + of_plan
    return rewards


def _last(mask: Tensor) -> Tensor:
    """(B,) the place of each answer's last token."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return (places * mask.bool()).argmax(-1)


def _compared(rewards: Tensor, index: Sequence[Any], *, divides: bool) -> Tensor:
    """The advantages (B,) of rewards (B,) within their groups; 0 for an answer without a reward."""
    groups: dict[Any, list[int]] = {}
    for place, group in enumerate(index):
        groups.setdefault(group, []).append(place)
    known = [None if math.isnan(reward) else reward for reward in rewards.tolist()]
    advantages = torch.zeros(len(known), device=rewards.device)
    for places in groups.values():
        group_rewards = [known[place] for place in places]
        advantages[places] = advantages.new_tensor(centred(group_rewards, divides=divides))
    return advantages
