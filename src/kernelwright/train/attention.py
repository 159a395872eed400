"""Attention within each pair of a packed row: PyTorch's flash attention for variable lengths.

With a mask of blocks, memory and time grow with the square of the row's length. Here a pair costs
as much as in a row of its own. CUDA only. Models of transformers find the function by its
registered name, and pass `cu_seq_lens_q` and `max_length_q` of the batch to the function.
"""

from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface

NAME = "kernelwright_varlen"


def register() -> None:
    """Register `attend`, so that `model.set_attn_implementation(NAME)` finds it."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, _no_mask)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each sequence of a batch.

    Args:
        query: (B, H, T, D); key and value: (B, H_kv, T, D), H_kv a divisor of H.
        cu_seq_lens_q: (N + 1,) int32, the places where sequences begin, if the batch is one row of
            B * T tokens. The last element is B * T.
        max_length_q: the length of the longest sequence, in tokens.
        sliding_window: the number of tokens that a token attends to, with itself; None: all tokens.

    Returns:
        (B, T, H, D), and no weights.
    """
    del module, attention_mask
    batch, heads, width, size = query.shape
    groups, dtype = heads // key.shape[1], _computed_in(query)
    q, k, v = (
        tensor.transpose(1, 2).reshape(batch * width, heads, size).to(dtype)
        for tensor in (query, key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1))
    )
    # A layer's sliding window counts the token itself; flash attention's window does not.
    attended: Any = varlen_attn(
        q,
        k,
        v,
        cu_seq_lens_q,
        cu_seq_lens_q,
        max_length_q,
        max_length_q,
        scale=scaling,
        window_size=(-1 if sliding_window is None else sliding_window - 1, 0),
    )
    return attended.view(batch, width, heads, size), None


def _computed_in(query: torch.Tensor) -> torch.dtype:
    """The dtype for flash attention, which takes only 16-bit types. Under autocast, queries and
    keys are float32 after the rotation of positions, and autocast has no rule for this function."""
    kind = query.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else query.dtype


def _no_mask(**_: Any) -> None:
    """No mask: the lengths of the sequences replace it."""
