"""A causal language model in this process, as a policy: the embedded model, or a model by its
path."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.policy.answer import Answer, read_answer
from kernelwright.policy.decode import Decoder
from kernelwright.policy.embedded import load_embedded, load_model
from kernelwright.policy.endpoint import Message
from kernelwright.policy.mending import Mender
from kernelwright.policy.names import EMBEDDED, PATH
from kernelwright.policy.policy import Sampling, num_samples
from kernelwright.policy.prompt import Request, conversation
from kernelwright.policy.tokenizer import end_tokens
from kernelwright.programs.program import Program
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.stages import worked_s


class LocalModel:
    """A policy with the model in this process. Equal seeds give equal answers: each sample has its
    own seed, which does not depend on other samples."""

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_rows: int = 0,
    ) -> None:
        """
        Args:
            max_rows: the most answers that are written at once; 0: as many as memory has room for.

        Raises:
            UsageError: the tokenizer has no chat template, or the model cannot be decoded here.
        """
        if not tokenizer.chat_template:
            raise UsageError(
                f"the tokenizer of {name} has no chat template",
                remedy="name a model that was tuned to answer, or add its chat_template.jinja",
            )
        self._name, self._tokenizer = name, tokenizer
        turn: Callable[[], AbstractContextManager[None]] = nullcontext
        if model.device.type == "cuda":  # not while another process takes times
            turn = partial(gpu_lock, model.device.index or 0, shared=True)
        stops = stop_tokens(model, tokenizer)
        self._decoder = Decoder(model, stops=stops, max_rows=max_rows, turn=turn)

    @classmethod
    def embedded(cls) -> "LocalModel":
        """The model that ships with the package.

        Raises:
            UsageError: the weights are missing.
        """
        device = _device()
        # float32 on a CPU: bfloat16 takes twice as long there.
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        return cls(EMBEDDED, *load_embedded(device, dtype))

    @classmethod
    def of_path(cls, spec: str) -> "LocalModel":
        """The model that "hf:PATH" names, in its own precision.

        Raises:
            UsageError: there is no such model, or it is broken.
        """
        return cls(spec, *load_model(Path(spec.removeprefix(PATH)).expanduser(), _device()))

    @property
    def name(self) -> str:
        return self._name

    @property
    def takes_feedback(self) -> bool:
        """As `ChatPolicy.takes_feedback`."""
        return self._name != EMBEDDED

    def write(
        self, requests: Sequence[Request], *, samples: int, sampling: Sampling
    ) -> list[list[Answer]]:
        """As `Policy.write`."""
        conversations = [conversation(request) for request in requests]
        programs = [request.program for request in requests]
        texts = self._texts(conversations, samples, sampling, programs)
        return [
            [self._read(text, messages, is_out_of_time) for text, is_out_of_time in answers]
            for messages, answers in zip(conversations, texts, strict=True)
        ]

    def _read(self, text: str, messages: Sequence[Message], is_out_of_time: bool) -> Answer:
        """Read an answer. If the request fills the context, so that the answer is empty, the
        answer's message says so."""
        answer = read_answer(text, origin=self._name, is_out_of_time=is_out_of_time)
        if (
            text
            or is_out_of_time
            or (length := len(prompt_tokens(self._tokenizer, messages))) < self._decoder.context
        ):
            return answer
        message = f"a request of {length} tokens fills the model's context"
        return replace(answer, message=message)

    def chat(
        self, conversations: Sequence[Sequence[Message]], *, samples: int, sampling: Sampling
    ) -> list[list[str]]:
        """As `ChatPolicy.chat`."""
        texts = self._texts(conversations, samples, sampling)
        return [[text for text, _ in answers] for answers in texts]

    def _texts(
        self,
        conversations: Sequence[Sequence[Message]],
        samples: int,
        sampling: Sampling,
        programs: Sequence[Program] = (),
    ) -> list[list[tuple[str, bool]]]:
        """The texts of answers to each conversation, each with whether the clock ended it.

        Args:
            programs: the program of each conversation, to find and mend faults of answers; empty:
                nothing is mended.
        """
        samples = num_samples(samples, sampling)
        prompts, seeds = [], []
        for messages in conversations:
            prompt = prompt_tokens(self._tokenizer, messages)
            prompts += [prompt] * samples
            seeds += [derive(sampling.seed, *prompt, number) for number in range(samples)]
        begin_s = worked_s()
        written = self._decoder.decode(prompts, seeds=seeds, sampling=sampling)
        if programs and sampling.mends:
            asked = [program for program in programs for _ in range(samples)]
            if sampling.for_s is not None:  # mending has what writing left of the time
                sampling = replace(sampling, for_s=sampling.for_s - (worked_s() - begin_s))
            mender = Mender(self._decoder, self._tokenizer)
            written = mender.mend(written, prompts, asked, seeds=seeds, sampling=sampling)
        # Marks of plan and code are no special tokens to the tokenizer: they stay.
        texts = self._tokenizer.batch_decode(
            [row.tokens for row in written], skip_special_tokens=True
        )
        answers = [(text, row.is_out_of_time) for text, row in zip(texts, written, strict=True)]
        return [answers[i : i + samples] for i in range(0, len(answers), samples)]

    def release(self) -> None:
        """As `Policy.release`: the memory of keys and values is freed, and the model stays."""
        self._decoder.release()


def prompt_tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation that a model reads before it answers.

    If the chat template refuses system messages, the system's text goes in front of the user's
    first message.
    """
    turns = [{"role": message.role, "content": message.content} for message in messages]
    try:
        return _rendered(tokenizer, turns)
    except jinja2.TemplateError:
        if turns[0]["role"] != "system":
            raise
        system, first, *rest = turns
        first["content"] = f"{system['content']}\n{first['content']}"
        return _rendered(tokenizer, [first, *rest])


def _rendered(tokenizer: PreTrainedTokenizerBase, turns: list[dict[str, str]]) -> list[int]:
    tokens: Any = tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_dict=False
    )
    return list(tokens)


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def stop_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The tokens that end an answer, by the model's generation config, the tokenizer and the chat
    template. The three may differ, and any of them may be what the model was tuned to write."""
    configured = model.generation_config.eos_token_id if model.generation_config else None
    tokens = set(configured) if isinstance(configured, list) else {configured}
    return {token for token in (*tokens, *end_tokens(tokenizer)) if token is not None}
