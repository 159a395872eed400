"""The interface of all writers of candidates: the embedded model, other models, the teacher."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.policy.answer import Answer
from kernelwright.policy.endpoint import Message
from kernelwright.policy.prompt import Request


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How answers are drawn."""

    temperature: float = 0.0
    """0: greedy, and one sample is all there is."""
    top_p: float = 1.0
    """The likeliest tokens are drawn from, until they hold this share of the probability."""
    max_tokens: int = 8192
    """The most tokens of one answer; a longer answer is cut off."""
    seed: int = 0
    """Equal seeds, equal answers, where the policy can promise that: endpoints may not."""
    for_s: float | None = None
    """Seconds of writing: what models have not written by then is cut off or left out."""
    mends: int = 0
    """How often an answer whose text shows a fault (`policy.faults`) is written anew from the fault
    on. Models in this process do that; others do not."""

    def __post_init__(self) -> None:
        is_drawn = self.temperature >= 0.0 and 0.0 < self.top_p <= 1.0
        if not (is_drawn and self.max_tokens > 0 and self.mends >= 0):
            raise UsageError(
                f"cannot sample with {self}",
                remedy="temperature >= 0, 0 < top_p <= 1, max_tokens > 0, mends >= 0",
            )


def num_samples(samples: int, sampling: Sampling) -> int:
    """The number of answers to ask a model for: greedy answers are all alike."""
    return samples if sampling.temperature else min(samples, 1)


class Interrupted(InfraError):
    """A policy failed on the way."""

    def __init__(self, message: str, answers: list[list[Answer]]) -> None:
        super().__init__(message)
        self.answers = answers
        """The answers until then, in the form of `Policy.write`."""


class Policy(Protocol):
    """A writer of candidates."""

    @property
    def name(self) -> str:
        """As the user names it: "embedded", "hf:PATH", "openai:URL#model", "teacher"."""

    def write(
        self, requests: Sequence[Request], *, samples: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """At most `samples` answers to each request, in its order.

        Raises:
            UsageError: the policy cannot be used as named.
            InfraError: what runs it failed; `Interrupted` where it has answers to give back.
        """

    def release(self) -> None:
        """Free memory that only writing needs, for other work on the device. The policy may be
        asked again afterwards."""


@runtime_checkable
class ChatPolicy(Policy, Protocol):
    """A policy that continues a conversation."""

    @property
    def takes_feedback(self) -> bool:
        """Whether a verdict in the conversation (`prompt.with_feedback`) can improve its answer.
        The embedded model was trained on first answers alone."""

    def chat(
        self, conversations: Sequence[Sequence[Message]], *, samples: int, sampling: Sampling
    ) -> list[list[str]]:
        """At most `samples` continuations of each conversation.

        Raises:
            UsageError, InfraError: as `write`.
        """
