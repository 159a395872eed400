"""Writers of a step's answers: a copy of the learning model, or a server with the same weights."""

import copy
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, Protocol
from urllib.request import Request, urlopen

import torch

from kernelwright.core.errors import InfraError
from kernelwright.policy.decode import Decoder, WrittenTokens
from kernelwright.policy.endpoint import Endpoint
from kernelwright.policy.local import stop_tokens
from kernelwright.policy.policy import Sampling
from kernelwright.policy.served import MAX_SEED
from kernelwright.train.rl.recipe import LOCAL, RlRecipe

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CONCURRENCY = 256
"""The most requests at the same time, for a server that serves this run alone."""
RELOAD_S = 600.0
"""The most seconds that the server may need to read new weights."""

Tokens = Sequence[int]


class AnswerWriter(Protocol):
    """Writes the answers of a step with the weights of the model that learns."""

    def refresh(self, model: "PreTrainedModel") -> None:
        """Write all further answers with the present weights of this model."""
        ...

    def write(
        self, prompts: Sequence[Tokens], *, seeds: Sequence[int], sampling: Sampling
    ) -> Iterator[tuple[int, WrittenTokens]]:
        """Yield (number of the prompt, its answer's tokens) when an answer is complete.

        Raises:
            UsageError, InfraError: a server refuses, or fails.
        """
        ...


class LocalWriter:
    """A copy of the learning model, for decoding. On a GPU the copy is in bfloat16, because the
    learning weights are float32 and would be cast for every token."""

    def __init__(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", device: torch.device
    ) -> None:
        """
        Args:
            model: the model as it was loaded. The copy must be made before TRL's trainer replaces
                the model's `forward`.

        Raises:
            UsageError: the model cannot be decoded here.
        """
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        twin: Any = copy.deepcopy(model)
        self._copy: PreTrainedModel = twin.to(device).eval().requires_grad_(False)
        # Buffers stay as they are: rounded frequencies of positions would be another model's.
        for parameter in self._copy.parameters():
            parameter.data = parameter.data.to(dtype)
        self._decoder = Decoder(self._copy, stops=stop_tokens(model, tokenizer))

    @torch.no_grad()
    def refresh(self, model: "PreTrainedModel") -> None:
        """Copy the model's weights in place: captured CUDA graphs read them at fixed addresses."""
        theirs = dict(model.named_parameters())
        for name, ours in self._copy.named_parameters():
            ours.copy_(theirs[name])

    def write(
        self, prompts: Sequence[Tokens], *, seeds: Sequence[int], sampling: Sampling
    ) -> Iterator[tuple[int, WrittenTokens]]:
        return self._decoder.stream(prompts, seeds=seeds, sampling=sampling)


class ServedWriter:
    """A vLLM server that answers in tokens, and reads its weights again on request.

    The user starts the server on the folder `rollouts.served`, where the trainer writes its
    weights. The server must run in development mode (`VLLM_SERVER_DEV_MODE=1`). Otherwise it
    refuses to read weights again.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """
        Raises:
            UsageError: the client library is missing.
        """
        endpoint.ready()
        self._endpoint = endpoint

    def refresh(self, model: "PreTrainedModel") -> None:
        """Make the server read the weights that the trainer wrote into its folder.

        Raises:
            InfraError: the server cannot be reached, or refuses.
        """
        del model  # its weights are in the folder
        self._tell("collective_rpc", {"method": "reload_weights"})
        # Cached prompts hold keys and values of the weights before.
        self._tell("reset_prefix_cache", {})

    def _tell(self, path: str, body: dict[str, str]) -> None:
        url = f"{self._endpoint.url.rstrip('/').removesuffix('/v1')}/{path}"
        request = Request(
            url, json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        try:
            with urlopen(request, timeout=RELOAD_S):
                return
        except OSError as error:
            raise InfraError(
                f"{url}: {error}; the server is to be run with VLLM_SERVER_DEV_MODE=1"
            ) from error

    def write(
        self, prompts: Sequence[Tokens], *, seeds: Sequence[int], sampling: Sampling
    ) -> Iterator[tuple[int, WrittenTokens]]:
        with self._endpoint.client() as client, ThreadPoolExecutor(CONCURRENCY) as pool:

            def ask(number: int) -> tuple[int, WrittenTokens]:
                continued = self._endpoint.continued(
                    client,
                    prompts[number],
                    max_tokens=sampling.max_tokens,
                    temperature=sampling.temperature,
                    seed=seeds[number] % MAX_SEED,
                )
                if continued.is_cut_off or not continued.tokens:
                    return number, WrittenTokens(continued.tokens, end=None)
                *before, last = continued.tokens
                return number, WrittenTokens(before, end=last)

            asked = [pool.submit(ask, number) for number in range(len(prompts))]
            try:
                for future in as_completed(asked):
                    yield future.result()
            # A caller that stops early would wait here for all requests that are still queued.
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def writer_of(
    recipe: RlRecipe,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    device: torch.device,
) -> AnswerWriter:
    """The writer that a recipe names.

    Args:
        model: the model as it was loaded, before a trainer changes it.

    Raises:
        UsageError: the model cannot be decoded here, or no server is named.
    """
    if recipe.rollouts.policy == LOCAL or recipe.rollouts.pool:  # which is validated with
        return LocalWriter(model, tokenizer, device)
    return ServedWriter(Endpoint.parse(recipe.rollouts.policy))
