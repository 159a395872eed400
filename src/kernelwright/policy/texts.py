"""Requests with their answers as rows of tokens, and rows as batches of a forward pass.

Padding is at the end of rows. Under a causal mask no token attends to later padding, so no other
mask is needed.
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
    """At least one token, except for rows that only fill up a batch."""

    def __len__(self) -> int:
        return len(self.prompt) + len(self.answer)


def micro_batches(
    lengths: Sequence[int], micro_tokens: int, *, processes: int = 1
) -> list[list[int]]:
    """Cut rows into batches of at most `micro_tokens` tokens for a process, padding included.

    Args:
        lengths: tokens of each row.
        processes: the number of processes that share the rows of a batch. All of them pad to the
            width of the longest row.

    Returns:
        For each batch the numbers of its rows, the longest first. If a batch has a row longer than
        `micro_tokens`, each process gets at most one of its rows.
    """
    # Sorted by length, rows of a batch are alike and little padding is needed.
    batches: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        width = padded(lengths[batches[-1][0]]) if batches else 0
        # Tokens cannot be shared out more finely than whole rows, so rows are counted here.
        rows = -(-(len(batches[-1]) + 1) // processes) if batches else 0
        if batches and (width * rows <= micro_tokens or (rows == 1 and processes > 1)):
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches


def padded(length: int) -> int:
    """The width of a batch whose longest row has `length` tokens."""
    return -(-length // WIDTHS_OF) * WIDTHS_OF


def ids_and_mask(texts: Sequence[Text], *, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows as arrays: tokens (B, T) int64 with padding at the end, and a mask (B, T) bool, true on
    the answers' tokens. T is the length of the longest text, rounded up by `padded`.
    """
    width = padded(max(map(len, texts)))
    ids = np.full((len(texts), width), pad_id, dtype=np.int64)
    mask = np.zeros((len(texts), width), dtype=bool)
    for number, text in enumerate(texts):
        begin, end = len(text.prompt), len(text)
        ids[number, :begin], ids[number, begin:end] = text.prompt, text.answer
        mask[number, begin:end] = True
    return ids, mask
