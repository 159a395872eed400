"""Pairs as tokens: made once, by many processes, into a memory-mapped file."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelwright.core.errors import UsageError
from kernelwright.train.pairs import (
    FilePart,
    Message,
    TrainingPair,
    has_plan,
    parts_of,
    read_part,
    up_to_plan,
    with_reasoning,
    without_plan,
)

if TYPE_CHECKING:
    from datasets import Dataset, Features
    from transformers import PreTrainedTokenizerBase

PAIRS_AT_ONCE = 256
NO_MARKS = "the tokenizer's chat template does not mark what the assistant says"
MARK = "put {% generation %} .. {% endgeneration %} around the assistant's content"


def marked_template(tokenizer: "PreTrainedTokenizerBase") -> str:
    """A chat template that marks the assistant's tokens: the tokenizer's own, or TRL's version of
    it. The tokenizer itself is not changed.

    Raises:
        UsageError: the tokenizer has no single template, or TRL knows no version with marks.
    """
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    own = tokenizer.chat_template
    if not isinstance(own, str):
        raise UsageError("the tokenizer has no one chat template", remedy=MARK)
    if has_generation_markers(own):
        return own
    try:
        template: str = get_training_chat_template(tokenizer)
    except ValueError as error:
        raise UsageError(NO_MARKS, remedy=MARK) from error
    return template


@dataclass(frozen=True, kw_only=True, slots=True)
class PairTokenizer:
    """Turns pairs into tokens, by the settings of a recipe."""

    tokenizer: "PreTrainedTokenizerBase"
    template: str
    max_tokens: int
    """The most tokens of a pair. Of a longer pair, only the number of tokens is stored."""
    plans: bool = True
    reasoning: bool = False
    answers: int | None = None
    plans_alone: frozenset[str] = frozenset()
    """As in `recipe.Data`."""

    def tokenize(self, pairs: Sequence[TrainingPair]) -> Iterator[tuple[list[int], np.ndarray]]:
        """Turn pairs into tokens.

        The loss covers the assistant's tokens after the request. It does not cover earlier answers
        of the conversation, or the tokens with which the template begins an answer.

        Yields:
            For each pair its token ids, and a bool array of the same length, true on tokens that
            the loss covers.

        Raises:
            UsageError: the chat template marks no answer.
        """
        whole = self._encode([pair.messages for pair in pairs], return_assistant_tokens_mask=True)
        asked = self._encode_prompts(pairs)
        ends = self._plan_ends(pairs, whole["input_ids"])
        tokens = zip(pairs, whole["input_ids"], whole["assistant_masks"], strict=True)
        for number, (pair, ids, mask) in enumerate(tokens):
            prompt = asked[_text(pair)]
            trained = np.asarray(mask, dtype=bool)
            # The template also marks earlier answers of the conversation, which are requests here.
            trained[: _common(ids, prompt)] = False
            if not trained.any():
                raise UsageError(NO_MARKS, remedy=MARK)
            end = ends.get(number, len(ids))
            yield ids[:end], trained[:end]

    def _plan_ends(
        self, pairs: Sequence[TrainingPair], whole: Sequence[list[int]]
    ) -> dict[int, int]:
        """Index of a pair -> its number of tokens up to the end of the plan, for pairs of the
        sources `plans_alone`."""
        places = [place for place, pair in enumerate(pairs) if pair.source in self.plans_alone]
        if not places:
            return {}
        cut = self._encode([up_to_plan(pairs[place]).messages for place in places])["input_ids"]
        # the template ends both conversations, so the texts part where the plan ends
        return {place: _common(whole[place], ids) for place, ids in zip(places, cut, strict=True)}

    def _encode_prompts(self, pairs: Sequence[TrainingPair]) -> dict[str, list[int]]:
        """Text of a prompt -> its token ids. Pairs of the same program share a prompt, which is
        encoded once."""
        prompts = {_text(pair): pair.prompt for pair in pairs}
        encoded = self._encode(list(prompts.values()), add_generation_prompt=True)
        return dict(zip(prompts, encoded["input_ids"], strict=True))

    def _encode(self, conversations: list[list[Message]], **options: bool) -> Any:
        encode: Any = self.tokenizer.apply_chat_template
        return encode(conversations, chat_template=self.template, return_dict=True, **options)

    def rows(self, parts: Sequence[FilePart]) -> Iterator[dict[str, Any]]:
        """The rows of `token_dataset` for some parts of files. Pairs that are too long have no
        tokens."""
        for part in parts:
            pairs = (self._asked(p) for p in read_part(part) if self._is_asked(p))
            while some := list(islice(pairs, PAIRS_AT_ONCE)):
                for pair, (ids, trained) in zip(some, self.tokenize(some), strict=True):
                    fits = len(ids) <= self.max_tokens
                    yield {
                        "input_ids": ids if fits else [],
                        "trained": trained if fits else [],
                        "tokens": len(ids),
                        "level": pair.level,
                        "source": pair.source,
                        "split": pair.split,
                    }

    def _is_asked(self, pair: TrainingPair) -> bool:
        if pair.source in self.plans_alone and not has_plan(pair):
            return False
        return self.answers is None or pair.number < self.answers

    def _asked(self, pair: TrainingPair) -> TrainingPair:
        asked = pair if self.plans else without_plan(pair)
        return with_reasoning(asked) if self.reasoning else asked

    def digest(self, files: Sequence[Path]) -> str:
        """A digest of all that the tokens of files depend on, 16 hex digits."""
        digest = hashlib.blake2b(digest_size=8)
        for file in files:
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "blake2b").digest())
        vocabulary = self.tokenizer.backend_tokenizer.to_str()
        settings = [self.template, self.max_tokens, self.plans, self.answers, self.reasoning]
        settings += sorted(self.plans_alone)
        digest.update("\0".join(map(str, (vocabulary, *settings))).encode())
        return digest.hexdigest()


def _text(pair: TrainingPair) -> str:
    return json.dumps(pair.prompt)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common prefix of two sequences, in tokens."""
    width = min(len(one), len(other))
    differ = np.flatnonzero(np.asarray(one[:width]) != np.asarray(other[:width]))
    return int(differ[0]) if len(differ) else width


def token_dataset(
    files: Sequence[Path], how: PairTokenizer, *, folder: Path, workers: int
) -> "tuple[Dataset, str]":
    """The tokens of all pairs, memory-mapped from `folder`. If the folder lacks them, they are made
    first.

    Returns:
        A data set with a row for each pair, and the digest of all that it depends on. Columns:
        input_ids, trained, tokens (the number of input_ids), level, source, split.

    Raises:
        UsageError: a file has a line that is no pair, or no template marks the answers.
    """
    from datasets import Dataset
    from datasets.exceptions import DatasetGenerationError
    from datasets.utils.logging import disable_progress_bar

    disable_progress_bar()
    parts = parts_of(files)
    if not parts:
        raise UsageError(f"no pairs in {files[0]}: empty", remedy="`kernelwright data build` again")
    workers = max(1, min(workers, len(parts)))
    if workers > 1:  # each has one thread; the tokenizer's own threads do not survive a fork
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    digest = how.digest(files)
    try:
        dataset = Dataset.from_generator(
            how.rows,
            features=_features(len(how.tokenizer)),
            cache_dir=str(folder),
            gen_kwargs={"parts": parts},
            num_proc=workers if workers > 1 else None,
            fingerprint=digest,
        )
    except DatasetGenerationError:
        # An error of a child process comes back as text. Repeat the work here for the exception.
        for _ in how.rows(parts):
            pass
        raise
    return dataset, digest


def _features(vocabulary: int) -> "Features":
    from datasets import Features, List, Value

    return Features(
        {
            "input_ids": List(Value("uint16" if vocabulary <= 1 << 16 else "uint32")),
            "trained": List(Value("bool")),
            "tokens": Value("int32"),
            "level": Value("int32"),
            "source": Value("string"),
            "split": Value("string"),
        }
    )
