"""Our judge's rewards as plain callables, for the trainers of other libraries.

`kernel_reward` makes a reward function for TRL's `GRPOTrainer`. For other trainers, call
`outcomes_of` with texts, as `train.verl` does. No trainer is imported here. docs/elsewhere.md has
examples.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from enum import StrEnum
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.policy.answer import read_answer
from kernelwright.rewards.outcome import Outcome
from kernelwright.rewards.rewards import MODELLED, REWARDS, Reward
from kernelwright.verify.many.standing import JudgedCandidate, StandingJudges

ORIGIN = "policy"
"""The origin of candidates, as readers of their verdicts see it."""

Completion = str | Sequence[Mapping[str, str]]
"""An answer's text, or a conversation's messages that end with it."""
RewardFunction = Callable[..., list[float | None]]


class RewardPart(StrEnum):
    """The part of an answer whose reward counts, if plan and code have different rewards."""

    PLAN = "plan"
    CODE = "code"


def kernel_reward(
    judges: StandingJudges,
    reward: str = "rule_and_execution",
    *,
    part: RewardPart | str = RewardPart.CODE,
    column: str = "program",
) -> RewardFunction:
    """Make a reward function for TRL's trainers.

    TRL calls the reward function with named arguments: a list for each column of the data set. The
    function returns a reward for each answer. An answer without a candidate earns the reward of
    `Outcome.of(None)`. The reward is None if a fault of ours prevented the judgement, or if the
    judge cannot use the program as a reference. TRL leaves such answers out of their groups.

    Args:
        judges: started judges (inside their `with`). Their recipe has device, precision, mode and
            timing.
        reward: a name in `rewards.REWARDS`.
        part: the part that counts, if plan and code have different rewards.
        column: the column of the data set that has the program's canonical text.

    Raises:
        UsageError: no such reward or part. When called: no such column, or judges cannot be
            started.
        InfraError: when called: our side cannot start judges.
    """
    rewards, wanted = reward_named(reward), _part(part)

    def function(completions: Sequence[Completion], **columns: Any) -> list[float | None]:
        if column not in columns:
            raise UsageError(
                f"the data set has no column {column!r}",
                remedy="it holds each program's canonical text, as `data build` writes it",
            )
        outcomes = outcomes_of(
            judges, columns[column], [_text(completion) for completion in completions]
        )
        return [
            None if outcome is None else float(getattr(rewards(outcome), wanted))
            for outcome in outcomes
        ]

    function.__name__ = f"{reward}_{wanted}"  # what logs call it
    return function


def outcomes_of(
    judges: StandingJudges, programs: Sequence[str], texts: Sequence[str]
) -> list[Outcome | None]:
    """The outcomes of answers, each in its place.

    Args:
        programs: for each answer, the canonical text of its program.
        texts: the answers, as models wrote them.

    Returns:
        An outcome for each answer. None: a fault of ours prevented the judgement, or the judge
        cannot use the program as a reference.

    Raises:
        UsageError, InfraError: no judge can be started.
    """
    candidates = [read_answer(text, origin=ORIGIN).candidate for text in texts]
    places: dict[str, list[int]] = {}
    for i, (program, candidate) in enumerate(zip(programs, candidates, strict=True)):
        if candidate is not None:
            places.setdefault(program, []).append(i)
    outcomes: list[Outcome | None] = [Outcome.of(None)] * len(texts)
    waited: dict[int, Future[JudgedCandidate]] = {}
    for program, own in places.items():
        sources = [written.source for i in own if (written := candidates[i]) is not None]
        waited |= dict(zip(own, judges.judge(program, sources), strict=True))
    for i, future in waited.items():
        outcomes[i] = outcome_of(future.result(), programs[i])
    return outcomes


def outcome_of(finding: JudgedCandidate, program: str) -> Outcome | None:
    """The outcome of a finding.

    Returns:
        None if a fault of ours prevented the judgement, or the judge cannot use the program as a
        reference. The latter gives a warning, because all answers to this program are lost.
    """
    if finding.verdict is not None:
        return Outcome.of(finding.verdict)
    if finding.is_usage:
        warnings.warn(f"cannot be judged by: {finding.failure}\n{program}", stacklevel=2)
    return None


def reward_named(name: str) -> Callable[[Outcome], Reward]:
    """The reward function of a name, with the settings of the papers. `modelled` is no such name:
    this reward reads an estimate that outcomes have only in our own trainer.

    Raises:
        UsageError: no reward has this name.
    """
    known = [reward for reward in REWARDS if reward != MODELLED]
    if name not in known:
        raise UsageError(f"no reward {name!r} here", remedy=f"one of {', '.join(known)}")
    return REWARDS[name]


def _part(name: str) -> RewardPart:
    if name not in list(RewardPart):
        raise UsageError(f"no part {name!r} of a reward", remedy=f"one of {', '.join(RewardPart)}")
    return RewardPart(name)


def _text(completion: Completion) -> str:
    return completion if isinstance(completion, str) else completion[-1]["content"]
