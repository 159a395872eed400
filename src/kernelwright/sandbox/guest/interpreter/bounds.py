"""Guest side: the memory that interpreted kernels may read and write."""

import gc
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter as stock

from kernelwright.sandbox.guest.interpreter.races import stores

Addresses = np.ndarray[Any, Any]


class OutOfBounds(Exception):
    """A kernel touched memory outside its arguments."""


class MemoryBounds:
    """Byte ranges of the arguments of the launch in progress.

    A kernel may also follow addresses that an argument of 64-bit integers holds, as grouped
    products of matrices do, into tensors that are alive.
    """

    def __init__(self) -> None:
        self.starts = np.zeros(0, dtype=np.uint64)
        self.ends = np.zeros(0, dtype=np.uint64)
        self.names: list[str] = []
        self._named: list[tuple[str, torch.Tensor]] = []

    def enter(self, named: list[tuple[str, torch.Tensor]]) -> None:
        ranges: dict[int, tuple[int, str]] = {}
        for name, tensor in named:
            storage = tensor.untyped_storage()
            ranges.setdefault(storage.data_ptr(), (storage.nbytes(), name))
        self._named = named
        ordered = sorted((start, *rest) for start, rest in ranges.items() if start)
        self.starts = np.array([start for start, _, _ in ordered], dtype=np.uint64)
        self.ends = np.array([start + size for start, size, _ in ordered], dtype=np.uint64)
        self.names = [name for _, _, name in ordered]

    def check(self, what: str, pointers: Any, mask: np.ndarray[Any, Any]) -> None:
        """Raises OutOfBounds unless every unmasked element lies in one argument's storage."""
        addresses = pointers.data[np.broadcast_to(mask, pointers.data.shape)].reshape(-1)
        if addresses.size == 0:
            return
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        low, high = addresses.min(), addresses.max()
        home = int(np.searchsorted(self.starts, low, side="right")) - 1
        if home >= 0 and high + np.uint64(width) <= self.ends[home]:
            # the usual case: all in one argument
            stores.note(what, addresses, int(self.starts[home]), int(self.ends[home]))
            return
        outside = self._outside(addresses, width)
        if outside.size and (pointed := self._pointed_to()):
            self.enter([*self._named, *pointed])
            outside = self._outside(addresses, width)
        if outside.size:
            self._refuse(what, outside, width)

    def _outside(self, addresses: Addresses, width: int) -> Addresses:
        owner = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        inside = owner >= 0
        if self.ends.size:
            inside &= addresses + np.uint64(width) <= self.ends[owner]
        return addresses[~inside]

    def _pointed_to(self) -> list[tuple[str, torch.Tensor]]:
        """Returns living tensors at addresses that arguments hold, except those that are arguments
        already."""
        tables = [t for _, t in self._named if t.dtype in (torch.int64, torch.uint64)]
        if not tables:
            return []
        addresses = np.concatenate([t.reshape(-1).numpy().view(np.uint64) for t in tables])
        known = set(self.starts.tolist())
        pointed = []
        for tensor in filter(_is_on_cpu, gc.get_objects()):
            storage = torch.Tensor.untyped_storage(tensor)
            start, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
            if start not in known and bool(((addresses >= start) & (addresses < end)).any()):
                known.add(start)
                pointed.append(("a table of addresses", tensor))
        return pointed

    def _refuse(self, what: str, outside: Addresses, width: int) -> None:
        first = int(outside[0])
        distances = [
            (max(int(start) - first, first - int(end) + width), name)
            for start, end, name in zip(self.starts, self.ends, self.names, strict=True)
        ]
        nearest = ""
        if distances:
            distance, name = min(distances)
            nearest = f", {distance} bytes outside {name!r}"
        raise OutOfBounds(
            f"{what} of {width} bytes x {outside.size} outside the arguments' memory{nearest}"
        )


def named_tensors(name: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    if isinstance(value, tuple):
        return [pair for item in value for pair in named_tensors(name, item)]
    if isinstance(value, stock.TensorDescriptor | stock.triton.runtime.jit.TensorWrapper):
        return named_tensors(name, value.base)
    return []


def _is_on_cpu(value: object) -> bool:
    is_tensor = issubclass(type(value), torch.Tensor)  # `isinstance` may run code of the object's
    return is_tensor and value.device.type == "cpu" and value.layout is torch.strided  # type: ignore[attr-defined]
