"""Credit: turns the outcomes of a group's answers into advantages and weights for their tokens."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from kernelwright.policy.answer import PLAN_END
from kernelwright.rewards.advantages import centred, correct_weights, leave_one_out
from kernelwright.rewards.outcome import Outcome
from kernelwright.rewards.rewards import Reward, rewards
from kernelwright.train.rl.recipe import Loss, Objective

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class CreditPart:
    """A range of an answer's tokens with an advantage that differs from the answer's.

    `begin` and `end` count from the answer's first token.
    """

    begin: int
    end: int
    """Exclusive."""
    advantage: float


@dataclass(frozen=True, slots=True)
class Credit:
    """The credit of one answer."""

    plan: float
    """The advantage of the plan's tokens. The value equals `code` if the loss does not distinguish
    plan and code."""
    code: float
    """The advantage of all other tokens."""
    is_correct: bool
    weight: float
    """drpo: the weight of the answer among the right answers of its group."""
    parts: tuple[CreditPart, ...] = ()
    """Ranges of tokens with an advantage of their own (`rl.by_kernel`)."""

    @property
    def teaches(self) -> bool:
        """Whether any token has an advantage. Not for drpo, which reads `weight`."""
        own = (self.plan, self.code, *(part.advantage for part in self.parts))
        return any(advantage != 0.0 for advantage in own)


def rewards_of(outcomes: Sequence[Outcome | None], objective: Objective) -> list[Reward | None]:
    """The reward of each outcome, by the recipe's reward; None for an answer without an outcome."""
    reward = rewards(objective.reward_settings)[objective.reward]
    return [None if outcome is None else reward(outcome) for outcome in outcomes]


def flowed_back(
    rewards: Sequence[Reward | None], parents: Sequence[int | None], discount: float
) -> list[Reward | None]:
    """The rewards, with a part of the rewards of second answers added to first answers (Kevin,
    section 3.2, for two turns). The part is the discount times the mean reward of the second
    answers that follow the first answer.

    A reward of None stays None, and counts in no mean.

    Args:
        parents: for each answer, the number of the answer that it follows; None for first answers.
    """
    later: dict[int, list[Reward]] = defaultdict(list)
    for reward, parent in zip(rewards, parents, strict=True):
        if reward is not None and parent is not None:
            later[parent].append(reward)
    flowed = list(rewards)
    for number, following in later.items():
        if (own := rewards[number]) is not None:
            flowed[number] = Reward(
                plan=own.plan + discount * fmean(reward.plan for reward in following),
                code=own.code + discount * fmean(reward.code for reward in following),
            )
    return flowed


def credits_of(
    groups: Sequence[Hashable],
    outcomes: Sequence[Outcome | None],
    rewards: Sequence[Reward | None],
    objective: Objective,
) -> list[Credit | None]:
    """The credit of each answer, compared with the other answers of its group.

    Args:
        groups: a key for each answer; answers with equal keys are compared.
        outcomes: None if a fault of ours prevented the judgement. The credit of such an answer is
            None, and the answer does not change the credit of others.
        rewards: as `rewards_of` or `flowed_back` returns them.
    """
    members: dict[Hashable, list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        members[group].append(number)
    credits: list[Credit | None] = [None] * len(groups)
    for numbers in members.values():
        some = [rewards[number] for number in numbers]
        plan = _advantages([None if credit is None else credit.plan for credit in some], objective)
        code = _advantages([None if credit is None else credit.code for credit in some], objective)
        # Wrong answers have no speed: drpo must not reward how fast a wrong result is computed.
        speeds = [
            reward.code if reward is not None and _is_correct(outcomes[number]) else None
            for number, reward in zip(numbers, some, strict=True)
        ]
        weights = correct_weights(speeds, temperature=objective.temperature)
        for place, number in enumerate(numbers):
            if (outcome := outcomes[number]) is not None:
                credits[number] = Credit(
                    plan[place], code[place], outcome.is_correct, weights[place]
                )
    return credits


def _is_correct(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.is_correct


def _advantages(rewards: Sequence[float | None], objective: Objective) -> list[float]:
    if objective.loss is Loss.LEAVE_ONE_OUT:
        return leave_one_out(rewards)
    return centred(rewards, divides=objective.loss is Loss.GRPO)


def plan_mark(tokenizer: "PreTrainedTokenizerBase") -> int | None:
    """The id of the token that ends a plan; None if no single token does."""
    return tokenizer.get_vocab().get(PLAN_END)


def plan_length(tokens: list[int], tokenizer: "PreTrainedTokenizerBase", mark: int | None) -> int:
    """The number of an answer's tokens up to the end of its plan; 0 without a plan.

    Args:
        mark: as `plan_mark` returns it. None: the end of a plan has several tokens.
    """
    if mark is not None:
        return tokens.index(mark) + 1 if mark in tokens else 0
    if PLAN_END not in tokenizer.decode(tokens):
        return 0
    # How the mark is cut into tokens depends on the text around it, so decoded text is searched.
    # A longer prefix keeps the mark once a shorter one has it: bisection needs few decodings.
    low, high = 0, len(tokens)  # the mark is not in the first `low` tokens, and is in `high`
    while high - low > 1:
        middle = (low + high) // 2
        if PLAN_END in tokenizer.decode(tokens[:middle]):
            high = middle
        else:
            low = middle
    return high
