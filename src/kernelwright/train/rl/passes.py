"""Answers as rows of tokens, and rows as batches of a forward pass.

A row is a request and the answer to it, padded behind: nothing that counts sees padding under a
causal mask, so that no other mask is needed and attention runs at its fastest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from kernelwright.train.objectives import by_token
from kernelwright.train.rl.credit import Credit

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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Row:
    """An answer that is learnt from."""

    text: Text
    credit: Credit
    plan_length: int
    """Tokens of the answer that are credited as the plan's."""
    group: int
    old_logps: np.ndarray | None
    """(tokens of the answer,): of the policy that wrote it; None where that is the one that
    learns."""


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


def tensors(
    rows: Sequence[Row], *, alpha: float, pad_id: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """A batch as `GRPOTrainer._compute_loss` takes it, B rows of T tokens; requests are in
    `completion_ids` too, and `completion_mask` (B, T) is 1 on answers alone.

    Returns:
        prompt_ids, prompt_mask (B, 0); completion_ids, completion_mask, advantages and, where rows
        have them, old_per_token_logps (B, T).
    """
    ids, mask = ids_and_mask([row.text for row in rows], pad_id=pad_id)
    is_plan = np.zeros_like(mask)
    for number, row in enumerate(rows):
        begin = len(row.text.prompt)
        is_plan[number, begin : begin + row.plan_length] = True
    plan, code = (
        torch.tensor(values, dtype=torch.float32)
        for values in zip(*((row.credit.plan, row.credit.code) for row in rows), strict=True)
    )
    none = torch.zeros((len(rows), 0), dtype=torch.int64)
    made = {
        "prompt_ids": none,
        "prompt_mask": none,
        "completion_ids": torch.from_numpy(ids),
        "completion_mask": torch.from_numpy(mask.astype(np.int64)),
        "advantages": by_token(plan, code, torch.from_numpy(is_plan), alpha=alpha),
    }
    old = [row.old_logps for row in rows if row.old_logps is not None]
    if old:
        made["old_per_token_logps"] = torch.from_numpy(spread(old, mask))
    return {name: value.to(device) for name, value in made.items()}


def spread(values: Sequence[np.ndarray], mask: np.ndarray) -> np.ndarray:
    """(B, T) float32: values of each row where its mask is true, else 0."""
    made = np.zeros(mask.shape, dtype=np.float32)
    made[mask] = np.concatenate(values)
    return made


def passes_of(
    lengths: Sequence[int], micro_tokens: int, *, process: int = 0, processes: int = 1
) -> list[list[int]]:
    """Numbers of the rows in each pass of one of several processes.

    All have as many passes, since sharded weights are gathered in each, and as many rows in the
    same pass, since figures of rows are. What is missing is made up for by `~number` of a row that
    another process has: it is to count for nothing.
    """
    found = []
    for numbers in micro_batches(lengths, micro_tokens * processes):
        mine = numbers[process::processes]
        most = -(-len(numbers) // processes)
        found.append(mine + [~numbers[0]] * (most - len(mine)))
    return found


def blank(row: Row) -> Row:
    """A row of which no token is an answer's."""
    text = Text([*row.text.prompt, *row.text.answer], [])
    old = None if row.old_logps is None else row.old_logps[:0]
    return replace(row, text=text, old_logps=old)
