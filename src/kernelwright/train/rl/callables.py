"""Rewards and advantages as other trainers call them: TRL's as it comes, and verl.

Here they are without the loop of `train rl`: no curriculum, no audits, judging waited for.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernelwright.policy.answer import read_answer
from kernelwright.rewards.advantages import centred, leave_one_out
from kernelwright.rewards.outcome import Outcome
from kernelwright.rewards.rewards import REWARDS
from kernelwright.train.rl.rollout import ORIGIN, Judges

Completion = str | Sequence[Mapping[str, str]]
"""A text, or the messages of an answer."""


class VerdictReward:
    """A reward function as `trl.GRPOTrainer` calls them."""

    def __init__(self, judges: Judges, reward: str = "rule_and_execution") -> None:
        """
        Args:
            judges: `verify.standing.StandingJudges`, entered.
            reward: a name of docs/rewards.md; plan and code alike get the code's.
        """
        self._judges, self._reward = judges, REWARDS[reward]
        self.__name__ = reward

    def __call__(
        self, completions: Sequence[Completion], program: Sequence[str], **_: Any
    ) -> list[float | None]:
        """The reward of each completion; None where our side failed, which TRL leaves out.

        Args:
            program: the data set's column with canonical texts of programs.

        Raises:
            UsageError, InfraError: no judge can be started.
        """
        answers = [read_answer(_text(each), origin=ORIGIN) for each in completions]
        futures = [
            None
            if answer.candidate is None
            else self._judges.judge(reference, [answer.candidate.source])[0]
            for answer, reference in zip(answers, program, strict=True)
        ]
        found = [None if future is None else future.result() for future in futures]
        return [
            None
            if finding is not None and finding.verdict is None
            else self._reward(Outcome.of(None if finding is None else finding.verdict)).code
            for finding in found
        ]


def _text(completion: Completion) -> str:
    return completion if isinstance(completion, str) else completion[-1]["content"]


def group_advantages(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: Sequence[Any],
    *,
    leaves_one_out: bool = False,
    divides: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages by group as an estimator of verl's (`core_algos.register_adv_est`).

    Args:
        token_level_rewards: (B, T); a row's reward is their sum, and one that is not a number is
            no member of its group.
        response_mask: (B, T), 1 on a response's own tokens.
        index: of each row's group.
        leaves_one_out: compare with the others' mean; else with the group's,
        divides: by its standard deviation.

    Returns:
        Advantages and returns, both (B, T) and the same.
    """
    rewards = token_level_rewards.sum(-1).tolist()
    members: dict[Any, list[int]] = defaultdict(list)
    for row, group in enumerate(index):
        members[group].append(row)
    found = torch.zeros(len(rewards), device=token_level_rewards.device)
    for rows in members.values():
        known = [None if rewards[row] != rewards[row] else rewards[row] for row in rows]
        some = leave_one_out(known) if leaves_one_out else centred(known, divides=divides)
        found[rows] = torch.tensor(some, device=found.device)
    spread = found[:, None] * response_mask
    return spread, spread
