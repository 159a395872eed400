"""Language models behind an OpenAI-compatible URL: a server of the user or a public service."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.text import encodable
from kernelwright.policy.names import URL

if TYPE_CHECKING:
    import openai

SPEC_REMEDY = "write openai:URL#model, for example openai:http://localhost:8000/v1#my-model"
NO_KEY = "none"
"""The key that is sent if the user has no key. The client library requires a key, and the user's
own server does not check it."""
MESSAGE_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Message:
    """A turn of a conversation."""

    role: str
    """"system", "user" or "assistant"."""
    content: str


@dataclass(frozen=True, slots=True)
class Continuation:
    """The text that follows a prompt, as tokens."""

    tokens: list[int]
    """The tokens of the answer, with the end token if the answer has one."""
    is_cut_off: bool


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model at one URL.

    After a temporary failure (429, 5xx, no connection, no answer in time), the request is repeated.
    Pauses grow from attempt to attempt, unless the server names a pause.
    """

    url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable with the key; it may be unset for servers that ask for none."""
    timeout_s: float = 120.0
    """The time limit of one attempt."""
    max_retries: int = 4

    @classmethod
    def parse(cls, spec: str, **options: Any) -> "Endpoint":
        """The endpoint that "openai:URL#model" names.

        Raises:
            UsageError: the text names none.
        """
        url, _, model = spec.removeprefix(URL).partition("#")
        is_url = re.fullmatch(r"https?://[^\s/]+(/\S*)?", url) is not None
        if not spec.startswith(URL) or not is_url or not model.strip():
            raise UsageError(f"not a model endpoint: {spec}", remedy=SPEC_REMEDY)
        return cls(url, model, **options)

    def ready(self) -> None:
        """Check that the client library is installed. Call this before long work that needs
        answers.

        Raises:
            UsageError: the client library is missing.
        """
        _library()

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> str:
        """The text of the model's answer to a conversation.

        Args:
            top_p: sent only if it is below 1, because some servers do not know it.
            seed: sent only if the temperature is above 0, for the same reason.

        Raises:
            UsageError: the server refuses the request: key, URL, model or parameters are wrong.
            InfraError: the server cannot be reached, or its answer is malformed.
        """
        more = {"top_p": top_p} if top_p < 1.0 else {}
        if seed is not None and temperature:
            more["seed"] = seed
        with self.client() as client:
            answer = self._asked(
                client.chat.completions.create,
                messages=[{"role": m.role, "content": encodable(m.content)} for m in messages],
                max_tokens=max_tokens,
                temperature=temperature,
                **more,
            )
        text = getattr(getattr(self._choice(answer), "message", None), "content", None)
        if not isinstance(text, str):
            raise InfraError(f"{self.url} answers without text")
        return encodable(text)

    def client(self) -> Any:
        """A connection for many requests; a context manager, and threads may share it."""
        key = os.environ.get(self.key_variable) or NO_KEY
        return _library().OpenAI(
            base_url=self.url, api_key=key, timeout=self.timeout_s, max_retries=self.max_retries
        )

    def continued(
        self, client: Any, prompt: Sequence[int], *, max_tokens: int, temperature: float, seed: int
    ) -> Continuation:
        """The tokens that follow a prompt of tokens. The server has to know vLLM's option
        `return_token_ids`.

        Args:
            client: as `client()` returns it.

        Raises:
            UsageError: the server refuses the request, or returns no tokens.
            InfraError: the server cannot be reached, or its answer is malformed.
        """
        answer = self._asked(
            client.completions.create,
            prompt=list(prompt),
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            extra_body={"return_token_ids": True},
        )
        choice = self._choice(answer)
        tokens = getattr(choice, "token_ids", None)
        if not isinstance(tokens, list):
            raise UsageError(
                f"{self.url} says what it wrote as text alone",
                remedy="learning needs tokens: serve the model with vLLM, which returns them",
            )
        return Continuation(tokens, choice.finish_reason == "length")

    def _asked(self, create: Any, **request: Any) -> Any:
        library = _library()
        try:
            return create(model=self.model, **request)
        except library.APIStatusError as error:
            raise self._refused(error) from error
        except (library.OpenAIError, ValueError) as error:
            raise InfraError(f"{self.url}: {_first_line(error)}") from error

    def _choice(self, answer: Any) -> Any:
        try:
            return answer.choices[0]
        except (AttributeError, IndexError, TypeError) as error:
            raise InfraError(f"{self.url} answers something else than a completion") from error

    def _refused(self, error: "openai.APIStatusError") -> UsageError | InfraError:
        """The error for a status: an `InfraError` for 5xx and for 4xx that mean "later", otherwise
        a `UsageError`."""
        status, message = error.status_code, _first_line(error)
        if status in (408, 409, 429) or status >= 500:
            return InfraError(f"{self.url} answers {status}: {message}")
        remedies = {
            401: f"put the key into the environment variable {self.key_variable}",
            403: f"see that the key in {self.key_variable} may use {self.model}",
            404: f"see that {self.url} is the API's base, and that it serves {self.model}",
        }
        remedy = remedies.get(status, "see what the server's documentation says of this request")
        return UsageError(f"{self.url} refuses ({status}): {message}", remedy=remedy)


def _library() -> Any:
    try:
        import openai
    except ImportError as error:
        raise UsageError(
            "asking a model endpoint needs the package openai",
            remedy="pip install 'kernelwright[llm]'",
        ) from error
    return openai


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:MESSAGE_LIMIT]
