"""Pairs as tokens: made once, by many processes, into a memory-mapped file that runs share."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelwright.core.errors import UsageError
from kernelwright.train.pairs import Pair, Part, parts_of, read_part

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

PAIRS_AT_ONCE = 256
NO_MARKS = "the tokenizer's chat template does not mark what the assistant says"


def with_marked_answers(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    """The tokenizer with a chat template that tells the assistant's tokens apart.

    TRL knows such templates for the usual families, whose own have no marks.

    Raises:
        UsageError: there is no template, or TRL has none for it.
    """
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    remedy = "put {% generation %} .. {% endgeneration %} around the assistant's content"
    if not tokenizer.chat_template:
        raise UsageError("the tokenizer has no chat template", remedy=remedy)
    if not has_generation_markers(tokenizer.chat_template):
        try:
            tokenizer.chat_template = get_training_chat_template(tokenizer)
        except ValueError as error:
            raise UsageError(NO_MARKS, remedy=remedy) from error
    return tokenizer


def tokenize(
    pairs: Sequence[Pair], tokenizer: "PreTrainedTokenizerBase"
) -> Iterator[tuple[list[int], np.ndarray]]:
    """Token ids of each pair, and which of them are trained: those of its completion.

    Raises:
        UsageError: the chat template marks no answer.
    """
    encoded: Any = tokenizer.apply_chat_template(
        [pair.messages for pair in pairs], return_dict=True, return_assistant_tokens_mask=True
    )
    for ids, mask in zip(encoded["input_ids"], encoded["assistant_masks"], strict=True):
        yield ids, _last_run(np.asarray(mask, dtype=bool))


def _last_run(mask: np.ndarray) -> np.ndarray:
    """Of a mask, its last run of ones: earlier answers of a conversation are not to be learnt."""
    ones = np.flatnonzero(mask)
    if not len(ones):
        raise UsageError(NO_MARKS, remedy="an answer without text, or another template is needed")
    zeros = np.flatnonzero(~mask[: ones[-1]])
    begin = zeros[-1] + 1 if len(zeros) else 0
    kept = np.zeros_like(mask)
    kept[begin : ones[-1] + 1] = True
    return kept


def digest(files: Sequence[Path], tokenizer: "PreTrainedTokenizerBase", max_tokens: int) -> str:
    """Of all that tokens are made from, 16 hex digits."""
    found = hashlib.blake2b(digest_size=8)
    for file in files:
        with file.open("rb") as content:
            found.update(hashlib.file_digest(content, "blake2b").digest())
    backend = tokenizer.backend_tokenizer.to_str()
    found.update(f"{backend}\0{tokenizer.chat_template}\0{max_tokens}".encode())
    return found.hexdigest()


def token_dataset(
    files: Sequence[Path],
    tokenizer: "PreTrainedTokenizerBase",
    *,
    max_tokens: int,
    made_from: str,
    folder: Path,
    workers: int,
) -> "Dataset":
    """One row a pair: input_ids, trained, tokens (their number), level, source, split.

    Pairs longer than `max_tokens` keep their number of tokens and lose the tokens themselves. What
    lies in `folder` under the same `made_from`, which is what `digest` gives, is taken from there.

    Raises:
        UsageError: a file holds something else than pairs, or no template marks the answers.
    """
    from datasets import Dataset, Features, List, Value
    from datasets.exceptions import DatasetGenerationError
    from datasets.utils.logging import disable_progress_bar

    disable_progress_bar()
    ids = "uint16" if len(tokenizer) <= 1 << 16 else "uint32"
    features = Features(
        {
            "input_ids": List(Value(ids)),
            "trained": List(Value("bool")),
            "tokens": Value("int32"),
            "level": Value("int32"),
            "source": Value("string"),
            "split": Value("string"),
        }
    )
    parts = parts_of(files)
    if not parts:
        raise UsageError(f"no pairs in {files[0]}: empty", remedy="`kernelwright data build` again")
    workers = max(1, min(workers, len(parts)))
    if workers > 1:  # each has one thread; the tokenizer's own threads do not survive a fork
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        return Dataset.from_generator(
            _rows,
            features=features,
            cache_dir=str(folder),
            gen_kwargs={"parts": parts, "tokenizer": tokenizer, "max_tokens": max_tokens},
            num_proc=workers if workers > 1 else None,
            fingerprint=made_from,
        )
    except DatasetGenerationError:
        # What a process of its own failed by comes back as text: meet it again in this one.
        for _ in _rows(parts, tokenizer, max_tokens):
            pass
        raise


def _rows(
    parts: Sequence[Part], tokenizer: "PreTrainedTokenizerBase", max_tokens: int
) -> Iterator[dict[str, Any]]:
    for part in parts:
        pairs = read_part(part)
        while some := list(islice(pairs, PAIRS_AT_ONCE)):
            for pair, (ids, trained) in zip(some, tokenize(some, tokenizer), strict=True):
                fits = len(ids) <= max_tokens
                yield {
                    "input_ids": ids if fits else [],
                    "trained": trained if fits else [],
                    "tokens": len(ids),
                    "level": pair.level,
                    "source": pair.source,
                    "split": pair.split,
                }
