"""The tile that a program of an attention owns, and the state of its rows from block to block."""

from dataclasses import dataclass

START = (
    'row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)',
    "row_sum = tl.zeros((BLOCK_M,), dtype=tl.float32)",
    "acc = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)",
)
"""The state of a row without keys so far."""
ONLINE = (
    "highest = tl.maximum(row_max, tl.max(scores, 1))",
    "# A row without a key so far has no largest score: nothing is subtracted there.",
    'base = tl.where(highest == float("-inf"), 0.0, highest)',
    "weights = tl.exp(scores - base[:, None])",
    "shrink = tl.exp(row_max - base)",
    "row_sum = row_sum * shrink + tl.sum(weights, 1)",
    "row_max = highest",
)
"""Scores to weights, with what was summed before brought to the same base."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionTile:
    """The tile of queries and values that a program owns, and the blocks of keys that it walks."""

    queries: int
    keys: int
    values: int
    """Columns of the result."""
    width: int
    """The width of queries and keys that are loaded at a time; the whole width where BLOCK_E is as
    long."""
    num_warps: int
    num_stages: int
    precision: str = "ieee"
    splits: int = 1
    """Programs that share the keys of a row; a second kernel merges what they found."""
