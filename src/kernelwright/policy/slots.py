"""A cache of keys and values for many rows, each at its own position, at fixed addresses.

In transformers' static cache all rows have the same position, and attention reads all slots. Here a
step writes each row at the row's own position. Attention reads only as many slots as the longest
row needs.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "kernelwright_grouped"
"""Attention implementation: `grouped_attention`."""


def cache_keyword(model: torch.nn.Module) -> str:
    """The keyword by which a language model takes its cache: versions of transformers differ."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


@dataclass(slots=True)
class _Room:
    """The state that the layers of a cache share: its sizes, and the rows of the next forward pass.

    A layer does not refer to the cache itself. Such a cycle would keep the memory of the cache
    until Python's garbage collection.
    """

    rows: int
    length: int
    target: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    """For prompts, the row of each prompt. For a step, the position of each row."""
    bucket: int = 0
    """The number of slots that a step reads; 0: the pass reads prompts."""


class SlotCache(Cache):
    """The cache of keys and values for a model. Call `aim_prompts` or `aim_step` before each
    forward pass, to say where the pass writes keys and values."""

    def __init__(self, config: PreTrainedConfig, *, rows: int, length: int) -> None:
        self._room = _Room(rows, length)
        self.slots = [_Layer(self._room) for _ in range(config.num_hidden_layers)]
        super().__init__(layers=list(self.slots))

    @property
    def rows(self) -> int:
        return self._room.rows

    @property
    def length(self) -> int:
        """Slots of a row."""
        return self._room.length

    def lengthen(self, length: int) -> None:
        """Make room for `length` slots a row. Keys and values are kept, at other addresses."""
        before, self._room.length = self.length, length
        for layer in self.slots:
            if layer.is_initialized:
                old = layer.keys, layer.values
                layer.lazy_initialization(*old)
                for kept, values in zip((layer.keys, layer.values), old, strict=True):
                    kept[:, :, :before] = values

    def aim_prompts(self, rows: torch.Tensor) -> None:
        """The next pass reads prompts, and fills slots from the first on.

        Args:
            rows: (prompts,) int64, the row of each prompt.
        """
        self._room.target, self._room.bucket = rows, 0

    def aim_step(self, position: torch.Tensor, bucket: int) -> None:
        """The next pass reads one token of each of the first rows.

        Args:
            position: (rows,) int64, the slot that each row's token goes to.
            bucket: slots that attention reads, from the first on.
        """
        self._room.target, self._room.bucket = position, bucket

    def move(self, begin: torch.Tensor, end: torch.Tensor) -> None:
        """Copy rows `begin` into rows `end`, both (n,) int64."""
        for layer in self.slots:
            for kept in (layer.keys, layer.values):
                kept[end] = kept[begin]


class _Layer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one layer: (rows, heads, length, width of a head)."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, room: _Room) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._room = room

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        rows, length = self._room.rows, self._room.length
        # Zeros, not empty memory: masked values are multiplied by 0, and 0 times NaN or inf is NaN.
        self.keys = key_states.new_zeros((rows, key_states.shape[1], length, key_states.shape[3]))
        self.values = value_states.new_zeros((*self.keys.shape[:3], value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        target, bucket = self._room.target, self._room.bucket
        # Prompts attend to themselves alone, so they need not read back what they write.
        if not bucket:
            width = key_states.shape[2]
            self.keys[target, :, :width] = key_states
            self.values[target, :, :width] = value_states
            return key_states, value_states
        rows = torch.arange(len(target), device=target.device)
        self.keys[rows, :, target] = key_states[:, :, 0]
        self.values[rows, :, target] = value_states[:, :, 0]
        return self.keys[: len(target), :, :bucket], self.values[: len(target), :, :bucket]

    # Transformers asks for these to make masks. `DecodingSteps` has its own masks for steps, and
    # prompts begin at the first slot.

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return self._room.length


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as `sdpa` computes it, without repeating keys and values for grouped heads.

    If each row has one query, the heads that share keys and values are passed as if they were
    several queries of one head. More queries go to transformers' own `sdpa`.

    Args:
        query: (rows, heads, queries, width).
        key, value: (rows, heads of keys, slots, width).

    Returns:
        (rows, queries, heads, width), and no weights.
    """
    rows, heads, queries, width = query.shape
    if queries > 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    packed = query.reshape(rows, key.shape[1], heads // key.shape[1], width)
    attended = torch.nn.functional.scaled_dot_product_attention(
        packed, key, value, attn_mask=attention_mask, scale=options.get("scaling")
    )
    return attended.reshape(rows, 1, heads, value.shape[3]), None


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)


@contextmanager
def grouped(model: PreTrainedModel) -> Iterator[None]:
    """Within this context a model that attends by `sdpa` attends by `grouped_attention`. Other
    models are not changed."""
    before = model.config._attn_implementation
    if before != "sdpa":
        yield
        return
    model.set_attn_implementation(GROUPED)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
