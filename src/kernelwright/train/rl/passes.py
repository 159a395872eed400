"""Answers as rows of tokens, and rows as batches of a forward pass.

A row is a request and the answer to it, with padding at the end. Under a causal mask no token of
the row attends to that padding. So no other mask is needed, and attention takes its fastest path.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from kernelwright.policy.texts import Text, ids_and_mask, micro_batches
from kernelwright.train.objectives import by_token
from kernelwright.train.rl.credit import Credit


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LearnedRow:
    """An answer with its credit: a row of a batch."""

    text: Text
    credit: Credit
    plan_length: int
    """The number of tokens that get the plan's credit."""
    group: int
    old_logps: np.ndarray | None
    """(tokens of the answer,): log-probabilities of the policy that wrote the answer; None if
    the learning policy itself wrote it."""
    reference_logps: np.ndarray | None = None
    """(tokens of the answer,): log-probabilities of the model at the start of the run; None if
    the loss has no KL term."""


def tensors(
    rows: Sequence[LearnedRow], *, alpha: float, pad_id: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """A batch as `GRPOTrainer._compute_loss` takes it: B rows, padded to T tokens.

    Requests are in `completion_ids` too, and the prompts are empty: `completion_mask`, 1 on answers
    alone, tells both apart.

    Args:
        alpha: factor of advantages on the tokens of plans.

    Returns:
        prompt_ids, prompt_mask (B, 0); completion_ids, completion_mask, advantages and, where rows
        have them, old_per_token_logps and ref_per_token_logps (B, T).
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
    in_plan = torch.from_numpy(is_plan)
    advantages = by_token(plan, code, in_plan, alpha=alpha)
    # A part replaces the answer's advantage on its tokens. Tokens of plans keep their factor there.
    for number, row in enumerate(rows):
        begin = len(row.text.prompt)
        for part in row.credit.parts:
            tokens = slice(begin + part.begin, begin + part.end)
            share = torch.where(in_plan[number, tokens].bool(), alpha, 1.0)
            advantages[number, tokens] = part.advantage * share
    none = torch.zeros((len(rows), 0), dtype=torch.int64)
    arrays = {
        "prompt_ids": none,
        "prompt_mask": none,
        "completion_ids": torch.from_numpy(ids),
        "completion_mask": torch.from_numpy(mask.astype(np.int64)),
        "advantages": advantages,
    }
    # All rows have old log-probabilities, or none has: they are computed for whole batches.
    old = [row.old_logps for row in rows if row.old_logps is not None]
    if old:
        arrays["old_per_token_logps"] = torch.from_numpy(spread(old, mask))
    reference = [row.reference_logps for row in rows if row.reference_logps is not None]
    if reference:
        arrays["ref_per_token_logps"] = torch.from_numpy(spread(reference, mask))
    return {name: value.to(device) for name, value in arrays.items()}


def spread(values: Sequence[np.ndarray], mask: np.ndarray) -> np.ndarray:
    """Put values on the tokens of answers: (B, T) float32, 0 where the mask is false.

    Args:
        values: for each row with answer tokens, an array (answer tokens,), in the order of the
            rows.
        mask: (B, T) bool, true on the answers' tokens.
    """
    rows = np.zeros(mask.shape, dtype=np.float32)
    rows[mask] = np.concatenate(values)
    return rows


def passes_of(
    lengths: Sequence[int], micro_tokens: int, *, process: int = 0, processes: int = 1
) -> list[list[int]]:
    """The passes of one process: for each pass, the numbers of its rows.

    All processes make the same number of passes, because each pass gathers sharded weights. In a
    pass, all processes have the same number of rows, because figures of rows are gathered too. A
    process that lacks a row gets `~number`, where another process has the row `number`. The caller
    must not count such a row (`blank`).

    Args:
        lengths: tokens of each row.
        micro_tokens: the most tokens of a pass of one process, padding included. A longer row is
            alone in its pass.
    """
    passes = []
    for numbers in micro_batches(lengths, micro_tokens, processes=processes):
        mine = numbers[process::processes]
        most = -(-len(numbers) // processes)
        passes.append(mine + [~numbers[0]] * (most - len(mine)))
    return passes


def blank(row: LearnedRow) -> LearnedRow:
    """A row with the same tokens, all of which belong to the request. Such a row fills up a pass
    and adds nothing to any sum."""
    text = Text([*row.text.prompt, *row.text.answer], [])
    old = None if row.old_logps is None else row.old_logps[:0]
    reference = None if row.reference_logps is None else row.reference_logps[:0]
    return replace(row, text=text, old_logps=old, reference_logps=reference)
