"""A model behind a URL, as a policy. Each answer is a request, and many requests run at once."""

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.seed import derive
from kernelwright.policy.answer import Answer, read_answer
from kernelwright.policy.endpoint import Endpoint, Message
from kernelwright.policy.names import URL
from kernelwright.policy.policy import Interrupted, Sampling, num_samples
from kernelwright.policy.prompt import Request, conversation

CONCURRENCY = 16
"""The most requests at the same time. Servers compute them as a batch."""
MAX_SEED = 2**31
"""The largest seed that servers take."""


class ServedModel:
    """A policy behind a URL.

    After a failure no further request begins, and running requests are awaited. `write` then raises
    `Interrupted` with the answers so far, so that no answered request must be repeated.
    """

    def __init__(self, endpoint: Endpoint, *, concurrency: int = CONCURRENCY) -> None:
        """
        Raises:
            UsageError: the client library is missing.
        """
        endpoint.ready()
        self._endpoint, self._concurrency = endpoint, concurrency

    @property
    def name(self) -> str:
        return f"{URL}{self._endpoint.url}#{self._endpoint.model}"

    @property
    def takes_feedback(self) -> bool:
        """As `ChatPolicy.takes_feedback`."""
        return True

    def write(
        self, requests: Sequence[Request], *, samples: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """As `Policy.write`."""
        conversations = [conversation(request) for request in requests]
        texts, failure = self._ask(conversations, num_samples(samples, sampling), sampling)
        answers = [
            [read_answer(text, origin=self.name) for text in completions] for completions in texts
        ]
        if failure:
            raise Interrupted(str(failure), answers) from failure
        return answers

    def chat(
        self, conversations: Sequence[Sequence[Message]], *, samples: int, sampling: Sampling
    ) -> list[list[str]]:
        """As `ChatPolicy.chat`."""
        texts, failure = self._ask(conversations, num_samples(samples, sampling), sampling)
        if failure:
            raise failure
        return texts

    def release(self) -> None:
        """As `Policy.release`: this process holds no memory for the model."""

    def _ask(
        self, conversations: Sequence[Sequence[Message]], samples: int, sampling: Sampling
    ) -> tuple[list[list[str]], InfraError | None]:
        """The answers to each conversation, fewer than asked for after a failure; and the failure.

        Raises:
            UsageError: the server refuses a request.
        """
        broken = Event()
        end_s = math.inf if sampling.for_s is None else time.monotonic() + sampling.for_s

        def ask(messages: Sequence[Message], number: int) -> str | InfraError | UsageError | None:
            # Requests that still wait in the pool end here after a failure, or when time is over.
            if broken.is_set() or time.monotonic() > end_s:
                return None
            seed = (
                derive(sampling.seed, *(message.content for message in messages), number) % MAX_SEED
            )
            try:
                return self._endpoint.complete(
                    messages,
                    max_tokens=sampling.max_tokens,
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    seed=seed,
                )
            except (InfraError, UsageError) as error:
                broken.set()
                return error

        with ThreadPoolExecutor(self._concurrency) as pool:
            asked = [
                [pool.submit(ask, messages, number) for number in range(samples)]
                for messages in conversations
            ]
            replies = [[reply.result() for reply in row] for row in asked]
        failures = [reply for row in replies for reply in row if isinstance(reply, Exception)]
        if refused := next(
            (failure for failure in failures if isinstance(failure, UsageError)), None
        ):
            raise refused
        texts = [[reply for reply in row if isinstance(reply, str)] for row in replies]
        return texts, next(
            (failure for failure in failures if isinstance(failure, InfraError)), None
        )
