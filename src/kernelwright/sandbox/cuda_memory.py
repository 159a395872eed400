"""Device memory shared between host and guest, always host-owned.

Inputs are lent to the guest, which copies them; outputs land where the guest copies them to. The
host never opens a handle that a guest made, so a hostile answer cannot make it read or write
outside its own allocations. Lent memory comes from a pool of its own: CUDA shares whole segments,
and no other tensor of the host's may lie in one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import torch

from kernelwright.core.errors import infra
from kernelwright.sandbox.tensors import TensorMeta, flat_span

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
    def lend(self, tensors: Sequence[torch.Tensor]) -> Iterator[list[dict[str, Any]]]:
        """Handles of copies of `tensors`, valid until the block is left.

        Raises:
            InfraError: a tensor cannot be shared. There is no other way in.
        """
        with infra("sharing device memory with a guest"):
            spans = []
            for tensor in tensors:
                span = self._allocate(TensorMeta.of(tensor).span_bytes)
                spans.append(span.copy_(flat_span(tensor)))
            torch.cuda.synchronize()
            handles = [_share(span) for span in spans]
        try:
            yield handles
        finally:
            self._take_back(spans)

    @contextmanager
    def land(
        self, metas: Sequence[TensorMeta]
    ) -> Iterator[tuple[list[dict[str, Any]], list[torch.Tensor]]]:
        """Handles of memory for tensors of these shapes, and the host's view of it, valid until
        the block is left. Clone what is to be kept."""
        with infra("sharing device memory with a guest"):
            spans = [self._allocate(meta.span_bytes) for meta in metas]
            torch.cuda.synchronize()
            handles = [_share(span) for span in spans]
        landings = [
            span.view(meta.dtype).as_strided(meta.shape, meta.strides)
            for span, meta in zip(spans, metas, strict=True)
        ]
        try:
            yield handles, landings
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


def take(shared: dict[str, Any], meta: TensorMeta) -> torch.Tensor:
    """Guest side: a copy of a lent tensor, with its strides."""
    span = _open(shared).clone() if shared else _nothing()
    torch.cuda.synchronize()
    return span.view(meta.dtype).as_strided(meta.shape, meta.strides)


def deliver(shared: dict[str, Any], tensor: torch.Tensor) -> None:
    """Guest side: copy a tensor into the host's memory."""
    if shared:
        _open(shared).copy_(flat_span(tensor))
        torch.cuda.synchronize()


def _nothing() -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device="cuda")


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
    values = [
        bytes.fromhex(shared[name]) if name in _BYTES_FIELDS else int(shared[name])
        for name in _FIELDS
    ]
    storage = torch.UntypedStorage._new_shared_cuda(*values, shared["sync"])
    empty = torch.empty(0, dtype=torch.uint8, device="cuda")
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))
