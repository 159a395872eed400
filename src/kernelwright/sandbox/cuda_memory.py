"""Device memory shared between host and guest, always host-owned.

Inputs are lent to the guest, which copies them; outputs land where the guest copies them to. The
host never opens a handle that a guest made, so a hostile answer cannot make it read or write
outside its own allocations. Lent memory comes from a pool of its own: CUDA shares whole segments,
and no other tensor of the host's may lie in one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch

from kernelwright.core.errors import infra
from kernelwright.sandbox.tensors import TensorMeta, flat_span, fresh_copy

_ALIGNMENT = 512
"""Bytes, as of the caching allocator's blocks."""

_BYTES_FIELDS = ("handle", "counter", "event")
"""Fields of a handle that are bytes; they travel as hexadecimal text."""

_FIELDS = ("device", "handle", "num_bytes", "offset_bytes", "counter", "counter_offset", "event")
"""What `UntypedStorage._share_cuda_` returns, in order, before `event_sync_required`."""


class DeviceMemory:
    """The host's side; one per process."""

    def __init__(self) -> None:
        with infra("preparing device memory for guests"):
            torch.cuda.init()  # type: ignore[no-untyped-call]
            self._pool = torch.cuda.MemPool()

    @classmethod
    @cache
    def shared(cls) -> Self:
        return cls()

    @contextmanager
    def lend(self, tensors: Sequence[torch.Tensor]) -> Iterator["Shared"]:
        """A handle of copies of `tensors`, side by side, valid until the block is left.

        Raises:
            InfraError: they cannot be shared. There is no other way in.
        """
        with infra("sharing device memory with a guest"):
            begins, total = _side_by_side([TensorMeta.of(tensor) for tensor in tensors])
            spans = [self._allocate(total)]
            for begin, tensor in zip(begins, tensors, strict=True):
                flat = flat_span(tensor)
                spans[0][begin : begin + flat.numel()].copy_(flat)
            torch.cuda.synchronize()
            shared = Shared(_share(spans[0]), begins)
        try:
            yield shared
        finally:
            self._take_back(spans)

    @contextmanager
    def land(self, metas: Sequence[TensorMeta]) -> Iterator[tuple["Shared", list[torch.Tensor]]]:
        """A handle of memory for tensors of these shapes, and the host's view of it, valid until
        the block is left. Clone what is to be kept."""
        with infra("sharing device memory with a guest"):
            begins, total = _side_by_side(metas)
            spans = [self._allocate(total)]
            shared = Shared(_share(spans[0]), begins)
        landings = [_view(spans[0], begin, meta) for begin, meta in zip(begins, metas, strict=True)]
        try:
            yield shared, landings
        finally:
            torch.cuda.synchronize()
            del landings
            self._take_back(spans)

    def _allocate(self, num_bytes: int) -> torch.Tensor:
        with torch.cuda.use_mem_pool(self._pool):
            return torch.empty(num_bytes, dtype=torch.uint8, device="cuda")

    def _take_back(self, spans: list[torch.Tensor]) -> None:
        """Free what was lent; PyTorch keeps it while the guest still counts as a reader."""
        spans.clear()
        torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Shared:
    """Memory that both sides see, and where in it each tensor begins."""

    handle: dict[str, Any]
    begins: list[int]
    """In bytes."""


def take(handle: dict[str, Any], begins: list[int], metas: list[TensorMeta]) -> list[torch.Tensor]:
    """Guest side: copies of the lent tensors, each with its strides and a storage of its own."""
    whole = _open(handle)
    taken = [
        fresh_copy(_view(whole, begin, meta)) for begin, meta in zip(begins, metas, strict=True)
    ]
    torch.cuda.synchronize()
    return taken


def deliver(handle: dict[str, Any], begins: list[int], tensors: list[torch.Tensor]) -> None:
    """Guest side: copy tensors into the host's memory."""
    whole = _open(handle)
    for begin, tensor in zip(begins, tensors, strict=True):
        flat = flat_span(tensor)
        whole[begin : begin + flat.numel()].copy_(flat)
    torch.cuda.synchronize()


def _side_by_side(metas: Sequence[TensorMeta]) -> tuple[list[int], int]:
    """Where each tensor begins, aligned as an allocation of its own would be, and the length."""
    begins, total = [], 0
    for meta in metas:
        begins.append(total)
        total += -(-meta.span_bytes // _ALIGNMENT) * _ALIGNMENT
    return begins, total


def _view(whole: torch.Tensor, begin: int, meta: TensorMeta) -> torch.Tensor:
    part = whole[begin : begin + meta.span_bytes]
    return part.view(meta.dtype).as_strided(meta.shape, meta.strides)


def _share(span: torch.Tensor) -> dict[str, Any]:
    if not span.numel():
        return {}
    storage: Any = span.untyped_storage()
    *values, event_sync_required = storage._share_cuda_()
    fields: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
    for name in _BYTES_FIELDS:
        fields[name] = bytes(fields[name]).hex()
    return {**fields, "sync": bool(event_sync_required)}


def _open(shared: dict[str, Any]) -> torch.Tensor:
    if not shared:
        return torch.empty(0, dtype=torch.uint8, device="cuda")
    values = [
        bytes.fromhex(shared[name]) if name in _BYTES_FIELDS else int(shared[name])
        for name in _FIELDS
    ]
    storage = torch.UntypedStorage._new_shared_cuda(*values, shared["sync"])
    empty = torch.empty(0, dtype=torch.uint8, device="cuda")
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))
