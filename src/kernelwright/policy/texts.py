"""Requests with their answers as rows of tokens, and rows as batches of a forward pass.

Rows are padded behind. Under a causal mask no token sees padding, so no other mask is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTHS_OF = 64
"""Rows of a batch are padded to a multiple of this."""


@dataclass(frozen=True, slots=True)
class Text:
    """A request and an answer, as tokens."""

    prompt: Sequence[int]
    answer: Sequence[int]
    """At least one, but for rows that count for nothing."""

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


def micro_batches(lengths: Sequence[int], micro_tokens: int) -> list[list[int]]:
    """Numbers of rows, longest first, in batches of at most so many tokens with their padding; a
    row that is longer is alone."""
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        width = padded(lengths[batches[-1][0]]) if batches else 0
        if batches and width * (len(batches[-1]) + 1) <= micro_tokens:
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches


def padded(length: int) -> int:
    return -(-length // WIDTHS_OF) * WIDTHS_OF


def ids_and_mask(
    texts: Sequence[Text], *, pad_id: int, width: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(B, T) int64 tokens, requests first, padded behind; (B, T) bool, true on answers alone."""
    width = width or padded(max(map(len, texts)))
    ids = np.full((len(texts), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(texts), width), dtype=bool)
    for number, text in enumerate(texts):
        begin, end = len(text.prompt), len(text)
        ids[number, :begin], ids[number, begin:end] = text.prompt, text.answer
        mask[number, begin:end] = True
    return ids, mask
