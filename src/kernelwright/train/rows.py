"""Tokenised pairs in rows of one length, and rows as batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.train.pairs import TRAIN, VALIDATION
from kernelwright.train.recipe import Attention, Data, Packing

if TYPE_CHECKING:
    import torch
    from datasets import Dataset

IGNORED = -100
"""The label of a token that the loss leaves out."""
SIZES_OF = 128
"""Numbers of sequences in a batch are rounded up to a multiple of this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairSelection:
    """The tokenised pairs for training, in their order, and the pairs for validation."""

    train: np.ndarray
    """Numbers of rows of the token file. A pair may occur several times."""
    validation: Mapping[int, np.ndarray]
    """Level -> numbers of rows."""
    too_long: int


def select(pairs: "Dataset", data: Data, seed: int) -> PairSelection:
    """Choose the pairs of an epoch, and the pairs for validation.

    The expected number of copies of a pair is the factor of its level times the factor of its
    source. A fraction of a copy is drawn by chance. Pairs longer than `max_tokens` are left out.

    Args:
        pairs: as `tokens.token_dataset` returns them.

    Raises:
        UsageError: the recipe names a level or a source that no pair has.
    """
    table = pairs.select_columns(["tokens", "level", "source", "split"]).with_format("numpy")[:]
    level, split, source = (np.asarray(table[name]) for name in ("level", "split", "source"))
    fits = np.asarray(table["tokens"]) <= data.max_tokens
    draws = np.random.default_rng(derive(seed, "mixture"))
    factor = _factors("levels", level, data.levels) * _factors("sources", source, data.sources)
    # floor(f + u) with u uniform in [0, 1) has the mean f.
    copies = np.floor(factor + draws.random(len(pairs))).astype(int)
    chosen = np.repeat(np.arange(len(pairs)), np.where(fits & (split == TRAIN), copies, 0))
    validation_rows = np.flatnonzero(fits & (split == VALIDATION))
    by_level = {
        int(number): validation_rows[level[validation_rows] == number]
        for number in np.unique(level[validation_rows])
    }
    return PairSelection(
        train=draws.permutation(chosen),
        validation={
            number: np.sort(draws.permutation(rows)[: data.validation_pairs])
            for number, rows in by_level.items()
        },
        too_long=int((~fits).sum()),
    )


def _factors(setting: str, names: np.ndarray, factors: Mapping[str, float]) -> np.ndarray:
    """The factor of each pair, (n,), by its level's or source's name; 1 if none is given.

    Raises:
        UsageError: a factor is given for a name that no pair has.
    """
    known, place = np.unique(names, return_inverse=True)
    there = [str(name) for name in known]
    if unknown := sorted(factors.keys() - set(there)):
        raise UsageError(
            f"data.{setting}.{unknown[0]}: no pair has it",
            remedy=f"the pairs have {', '.join(there)}",
        )
    return np.array([factors.get(name, 1.0) for name in there])[place]


def pack(pairs: "Dataset", chosen: np.ndarray, data: Data) -> "Dataset":
    """Put pairs into rows of at most `max_tokens`, the longest pair first, by best fit.

    Without packing each pair has a row of its own.

    Args:
        chosen: numbers of the pairs; a number may occur several times.

    Returns:
        Columns input_ids, trained, and seq_lengths (the number of tokens of each pair in the row).
    """
    from trl import pack_dataset

    rows = pairs.select(chosen).select_columns(["input_ids", "trained"])
    if data.packing is Packing.NONE:
        return rows.add_column("seq_lengths", [[n] for n in _lengths(pairs, chosen)])
    return pack_dataset(rows, data.max_tokens, "bfd")


def _lengths(pairs: "Dataset", chosen: np.ndarray) -> list[int]:
    lengths: list[int] = np.asarray(pairs.with_format("numpy")["tokens"])[chosen].tolist()
    return lengths


@dataclass(frozen=True, kw_only=True, slots=True)
class Collator:
    """Makes a batch of rows: input_ids and labels (B, T), and num_tokens (1,) without padding.

    If pairs must not attend to each other, the batch has position_ids (B, T), which start at 0 with
    each pair. From these, transformers makes a mask of blocks. For attention by lengths, the batch
    also has cu_seq_lens_q, the places where pairs begin. Padding comes last, so under a causal mask
    no token of a pair attends to padding.
    """

    pad_id: int
    max_tokens: int
    packing: Packing
    attention: Attention = Attention.MASKED

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> "dict[str, torch.Tensor | int]":
        import torch

        longest = max(len(row["input_ids"]) for row in rows)
        width = longest if self.packing is Packing.NONE else self.max_tokens
        ids = np.full((len(rows), width), self.pad_id, dtype=np.int64)
        labels = np.full_like(ids, IGNORED)
        lengths = []
        for number, row in enumerate(rows):
            tokens = np.asarray(row["input_ids"], dtype=np.int64)
            ids[number, : len(tokens)] = tokens
            labels[number, : len(tokens)] = np.where(row["trained"], tokens, IGNORED)
            # Padding is a sequence of its own: lengths have to add up to all B * T tokens.
            lengths += [*row["seq_lengths"], width - len(tokens)]
        batch = {"input_ids": ids, "labels": labels}
        if self.packing is Packing.DOCUMENTS:
            positions = np.concatenate([np.arange(length) for length in lengths])
            batch["position_ids"] = positions.reshape(ids.shape)
        tensors: dict[str, torch.Tensor | int] = {
            name: torch.from_numpy(array) for name, array in batch.items()
        }
        tensors["num_tokens"] = torch.tensor([sum(len(row["input_ids"]) for row in rows)])
        if self.attention is Attention.VARLEN:
            return tensors | {
                "cu_seq_lens_q": torch.from_numpy(_begins(lengths)),
                "max_length_q": self.max_tokens,
            }
        return tensors


def _begins(lengths: Sequence[int]) -> np.ndarray:
    """The places where sequences begin, and the end of the last sequence: (N + 1,) int32.

    Empty sequences round the number of sequences up to a multiple of `SIZES_OF`. A compiled model
    may be compiled again for each new size, so there should be few sizes.
    """
    size = -(-(len(lengths) + 1) // SIZES_OF) * SIZES_OF
    begins = np.full(size, sum(lengths), dtype=np.int32)
    begins[0] = 0
    begins[1 : len(lengths) + 1] = np.cumsum(lengths)
    return begins
