"""Device memory shared between host and guest, always owned by the host.

Inputs are lent to the guest, which copies them. Outputs land where the guest copies them to. The
host never opens a handle that a guest made, so a hostile answer cannot make the host read or write
outside its own allocations. Small requests go through the guest's window (`sandbox.shared.window`).
For larger ones, memory is shared for one request, from a pool of its own: CUDA shares whole
segments, and no other tensor of the host's may lie in a shared segment.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.core.errors import infra
from kernelwright.sandbox.shared import window
from kernelwright.sandbox.shared.tensors import TensorMeta, flat_span, fresh_copy

_ALIGNMENT = 512
"""Bytes, as of the caching allocator's blocks."""

_BYTES_FIELDS = ("handle", "counter", "event")
"""Fields of a handle that are bytes; they travel as hexadecimal text."""

_FIELDS = ("device", "handle", "num_bytes", "offset_bytes", "counter", "counter_offset", "event")
"""The results of `UntypedStorage._share_cuda_`, in order, before `event_sync_required`."""


class DeviceMemory:
    """The host's side of the memory that is shared with one guest."""

    def __init__(self) -> None:
        with infra("preparing device memory for a guest"):
            torch.cuda.init()  # type: ignore[no-untyped-call]
        self._window: window.Window | None = None
        self._is_reading = False
        """Copies out of shared memory are queued: nobody may write there yet."""

    def close(self) -> None:
        """Frees the window, after the guest has ended."""
        if self._window is not None:
            with infra("freeing a guest's device memory"):
                self.settle()
                self._window.close()
                self._window = None

    @contextmanager
    def lend(self, tensors: Sequence[torch.Tensor]) -> Iterator["Shared"]:
        """Gives a handle of copies of `tensors`, side by side, valid until the block is left.

        Raises:
            InfraError: they cannot be shared. There is no other way in.
        """
        begins, total = _side_by_side([TensorMeta.of(tensor) for tensor in tensors])
        with self._span(total) as span:
            with infra("handing tensors to a guest"):
                for begin, tensor in zip(begins, tensors, strict=True):
                    flat = flat_span(tensor)
                    span.memory[begin : begin + flat.numel()].copy_(flat)
                self._wait()
            yield Shared(span.handle, begins)

    @contextmanager
    def land(self, metas: Sequence[TensorMeta]) -> Iterator[tuple["Shared", list[torch.Tensor]]]:
        """Gives a handle of memory for tensors of these shapes, and the host's view of this memory,
        valid until the block is left. Clone tensors that are to be kept."""
        begins, total = _side_by_side(metas)
        with infra("handing tensors to a guest"):
            self.settle()
        with self._span(total) as span:
            landings = [_view(span.memory, b, meta) for b, meta in zip(begins, metas, strict=True)]
            try:
                yield Shared(span.handle, begins), landings
            finally:
                landings.clear()
                span.memory.zero_()  # not for the next candidate to find
                self._is_reading = True

    def settle(self) -> None:
        """Waits until the host's copies out of shared memory are done."""
        if self._is_reading:
            self._wait()

    def _wait(self) -> None:
        torch.cuda.synchronize()
        self._is_reading = False

    @contextmanager
    def _span(self, num_bytes: int) -> Iterator["_Span"]:
        """Gives memory that both sides see, until the block is left."""
        with infra("sharing device memory with a guest"):
            span = (
                self._windowed(num_bytes) if num_bytes <= window.WINDOW_BYTES else _own(num_bytes)
            )
        try:
            yield span
        finally:
            if num_bytes > window.WINDOW_BYTES:
                self.settle()
                span.memory = _nothing()
                torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
                span.pool = None

    def _windowed(self, num_bytes: int) -> "_Span":
        if not num_bytes:
            return _Span(_nothing(), {})
        if self._window is None:
            torch.cuda.synchronize()  # this thread uses CUDA from here on
            self._window = window.Window()
        return _Span(self._window.memory[:num_bytes], {"window": self._window.handle})


@dataclass(slots=True)
class _Span:
    memory: torch.Tensor
    handle: dict[str, Any]
    pool: torch.cuda.MemPool | None = None
    """That the memory is from. It goes back to the device with its pool: `empty_cache` passes by
    what lies in a pool that lives."""


def _own(num_bytes: int) -> _Span:
    """Returns memory for one request. PyTorch keeps it while the guest still counts as a reader."""
    if torch.cuda.mem_get_info()[0] < num_bytes:
        torch.cuda.empty_cache()  # a pool finds no room in what others keep for later
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        memory = torch.empty(num_bytes, dtype=torch.uint8, device="cuda")
    return _Span(memory, _share(memory), pool)


def _nothing() -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device="cuda")


@dataclass(frozen=True, slots=True)
class Shared:
    """Memory that both sides see, and where in it each tensor begins."""

    handle: dict[str, Any]
    begins: list[int]
    """In bytes."""


def take(handle: dict[str, Any], begins: list[int], metas: list[TensorMeta]) -> list[torch.Tensor]:
    """Copies the lent tensors, in the guest, each with its strides and a storage of its own."""
    whole = _open(handle)
    taken = [
        fresh_copy(_view(whole, begin, meta)) for begin, meta in zip(begins, metas, strict=True)
    ]
    torch.cuda.synchronize()
    return taken


def deliver(handle: dict[str, Any], begins: list[int], tensors: list[torch.Tensor]) -> None:
    """Copies tensors into the host's memory, in the guest."""
    whole = _open(handle)
    for begin, tensor in zip(begins, tensors, strict=True):
        flat = flat_span(tensor)
        whole[begin : begin + flat.numel()].copy_(flat)
    torch.cuda.synchronize()


def _side_by_side(metas: Sequence[TensorMeta]) -> tuple[list[int], int]:
    """Returns where each tensor begins, aligned as an allocation of its own would be, and the
    length of all."""
    begins, total = [], 0
    for meta in metas:
        begins.append(total)
        total += -(-meta.span_bytes // _ALIGNMENT) * _ALIGNMENT
    return begins, total


def _view(whole: torch.Tensor, begin: int, meta: TensorMeta) -> torch.Tensor:
    part = whole[begin : begin + meta.span_bytes]
    return part.view(meta.dtype).as_strided(meta.shape, meta.strides)


def _share(span: torch.Tensor) -> dict[str, Any]:
    storage: Any = span.untyped_storage()
    *values, event_sync_required = storage._share_cuda_()
    fields: dict[str, Any] = dict(zip(_FIELDS, values, strict=True))
    for name in _BYTES_FIELDS:
        fields[name] = bytes(fields[name]).hex()
    return {**fields, "sync": bool(event_sync_required)}


def _open(shared: dict[str, Any]) -> torch.Tensor:
    if not shared:
        return _nothing()
    if "window" in shared:
        return window.opened(shared["window"])
    values = [
        bytes.fromhex(shared[name]) if name in _BYTES_FIELDS else int(shared[name])
        for name in _FIELDS
    ]
    storage = torch.UntypedStorage._new_shared_cuda(*values, shared["sync"])
    return _nothing().set_(storage, 0, (storage.nbytes(),), (1,))
