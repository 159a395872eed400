"""Whoever writes candidates: the embedded model, any other model, the teacher."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelwright.policy.answer import Answer
from kernelwright.policy.endpoint import Message
from kernelwright.policy.prompt import Request


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How answers are drawn."""

    temperature: float = 0.0
    """0: greedy, and one sample is all there is."""
    top_p: float = 1.0
    max_tokens: int = 8192
    """Of one answer; a longer one is cut off."""
    seed: int = 0
    """Equal seeds, equal answers, where the policy can promise that: endpoints may not."""


class Policy(Protocol):
    @property
    def name(self) -> str:
        """As the user names it: "embedded", "hf:PATH", "openai:URL#model", "teacher"."""

    def write(
        self, requests: Sequence[Request], *, samples: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """At most `samples` answers to each request, in its order.

        Raises:
            UsageError: the policy cannot be used as named.
            InfraError: what runs it failed; nothing is said of any answer.
        """


class ChatPolicy(Policy, Protocol):
    """A policy that goes on with a conversation: with a verdict, say (`prompt.with_feedback`)."""

    def chat(
        self, conversations: Sequence[Sequence[Message]], *, samples: int, sampling: Sampling
    ) -> list[list[str]]:
        """At most `samples` continuations of each conversation.

        Raises:
            UsageError, InfraError: as `write`.
        """
