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
    """The settings of writing answers."""

    temperature: float = 0.0
    """0: greedy. All greedy answers to a request are equal."""
    top_p: float = 1.0
    """A token is drawn from the likeliest tokens whose probabilities sum to this share."""
    max_tokens: int = 8192
    """The most tokens of one answer; a longer answer is cut off."""
    seed: int = 0
    """Equal seeds give equal answers. Endpoints may not keep this promise."""
    for_s: float | None = None
    """The seconds of writing. Answers that are not complete by then are cut off or left out."""
    mends: int = 0
    """The most times that an answer with a visible fault (`policy.faults`) is written again from
    the fault on. Only models in this process do this."""

    def __post_init__(self) -> None:
        is_drawn = self.temperature >= 0.0 and 0.0 < self.top_p <= 1.0
        if not (is_drawn and self.max_tokens > 0 and self.mends >= 0):
            raise UsageError(
                f"cannot sample with {self}",
                remedy="temperature >= 0, 0 < top_p <= 1, max_tokens > 0, mends >= 0",
            )


def num_samples(samples: int, sampling: Sampling) -> int:
    """The number of answers to ask a model for: 1 if answers are greedy, because greedy answers are
    equal."""
    return samples if sampling.temperature else min(samples, 1)


class Interrupted(InfraError):
    """A policy failed before it had all answers."""

    def __init__(self, message: str, answers: list[list[Answer]]) -> None:
        super().__init__(message)
        self.answers = answers
        """The answers until then, in the form of `Policy.write`."""


class Policy(Protocol):
    """A writer of candidates."""

    @property
    def name(self) -> str:
        """The name that the user gives: "embedded", "hf:PATH", "openai:URL#model", "teacher"."""

    def write(
        self, requests: Sequence[Request], *, samples: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """At most `samples` answers to each request, in the order of the requests.

        Raises:
            UsageError: the policy cannot be used as named.
            InfraError: the machine or the server of the policy failed. The error is `Interrupted`
                if some answers were written before.
        """

    def release(self) -> None:
        """Free memory that only writing needs, for other work on the device. The policy can still
        be asked afterwards."""


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
