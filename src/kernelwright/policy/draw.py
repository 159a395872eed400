"""Draws the next token of each row. Each row has its own random numbers, so its tokens do not
depend on the other rows of the batch."""

import numpy as np
import torch

UNIFORM_BITS = 23
"""The random bits of a number. With more bits, float32 could round a product up to 1."""


def uniforms(seed: int, count: int) -> torch.Tensor:
    """(count,) float32 numbers in [0, 1) for the tokens of one row."""
    drawn = np.random.default_rng(seed).integers(1 << UNIFORM_BITS, size=count)
    return torch.from_numpy((drawn / (1 << UNIFORM_BITS)).astype(np.float32))


def draw(
    logits: torch.Tensor,
    uniform: torch.Tensor,
    temperature: torch.Tensor,
    top_p: torch.Tensor | None,
) -> torch.Tensor:
    """Draw a token for each row by inversion: the first token whose cumulative probability exceeds
    the row's number.

    Args:
        logits: (rows, tokens).
        uniform: (rows,) numbers in [0, 1).
        temperature: a positive scalar tensor.
        top_p: a scalar tensor. The likeliest tokens whose probabilities sum to this share are kept.
            None: all tokens are kept.

    Returns:
        (rows,) int64.
    """
    share = torch.softmax(logits.float() / temperature, dim=-1)
    if top_p is None:
        return _invert(share, uniform)
    share, order = share.sort(dim=-1, descending=True, stable=True)
    before = share.cumsum(dim=-1) - share
    kept = torch.where(before < top_p, share, 0.0)
    return order.gather(1, _invert(kept, uniform)[:, None])[:, 0]


def _invert(share: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The first place of each row whose cumulative share exceeds the number: (rows,) int64."""
    cumulative = share.cumsum(dim=-1)
    # Shares of a nucleus sum to less than 1. Scaled by the sum, a number near 1 still has a place.
    target = uniform[:, None] * cumulative[:, -1:]
    return (cumulative <= target).sum(dim=-1)
