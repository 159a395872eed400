"""Guest side: values that cross the line between PyTorch and the rest of the process.

In `pure` mode kernels compute. Whoever computes elsewhere, in NumPy or Python, has to get values
out of tensors and results back in. Both directions are counted over a whole call, and digests
of memory show changes that no operator and no kernel made.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import _len_torch_dispatch_stack
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from kernelwright.sandbox.guest.disguise import disguised
from kernelwright.sandbox.guest.interpreter.memory import TracedMemory

MAX_FLOATS, MAX_VALUES = 16, 64
"""Values that may leave in one call: a scale, a threshold, lengths; not the values of a tensor.
Values of integer inputs count as integers, all others as floats."""
MAX_ENTERING = 64
"""Values of one tensor that may come from Python or NumPy: a small table."""
MAX_ENTERED = 4 * MAX_ENTERING
"""Values of all tensors together that may come from Python or NumPy in one call; and different
numbers as arguments of kernels."""
_LEAVING = frozenset(
    {"numpy", "__array__", "__dlpack__", "tolist", "__reduce_ex__", "apply_", "map_", "map2_"}
)
_READING = ("__getitem__", "__iter__", "tolist", "__reduce__", "__reduce_ex__", "_write_file")
"""Methods of storages that give values."""
_FILLS = frozenset(
    {
        "aten.fill_.Scalar",
        "aten.fill_.Tensor",
        "aten.full.default",
        "aten.full_like.default",
        "aten.new_full.default",
        "aten.scalar_tensor.default",
    }
)
_TO_SCALAR = "aten._local_scalar_dense.default"
_COPIES = frozenset({"aten.copy_.default", "aten.copy.default"})
_CLONE = "aten.clone.default"
_TO = "aten._to_copy.default"
_LIFTS = frozenset({"aten.lift_fresh.default", "aten.lift.default"})


class Crossings:
    """Counts values that cross the line in one call; `notes` holds the faults by name.

    Args:
        inputs: inputs of the call.
        own: further tensors that belong to the call: parameters and buffers.
        traces_memory: keep digests of CPU memory, to see writes that no operator and no kernel
            made.
    """

    def __init__(
        self, inputs: Iterable[Any], own: Iterable[torch.Tensor] = (), *, traces_memory: bool
    ) -> None:
        self.notes: Counter[str] = Counter()
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        self._integers = {_address(t) for t in tensors if not t.is_floating_point()}
        self._num_floats = self._num_values = self._num_fills = self._num_entered = 0
        self._memory = TracedMemory() if traces_memory else None
        self._numbers: set[float] = set()
        """Floats, and numbers in tuples, that kernels got."""
        self._is_on_gpu = any(tensor.is_cuda for tensor in (*tensors, *own))
        self._own = {_address(tensor) for tensor in (*tensors, *own)}
        self._note_all([*tensors, *own])
        if self._memory is not None:
            self._memory.note_living()

    # -- leaving

    def leaves_by_method(self, name: str, value: torch.Tensor) -> None:
        """Counts as `leaves`. On a GPU, values in host memory and those of `tolist` are not counted
        here: their copy to the host has been counted."""
        if not self._is_on_gpu or (value.is_cuda and name != "tolist"):
            self.leaves(name, value)

    def leaves(self, name: str, value: torch.Tensor) -> None:
        """Counts the values of a tensor that leave by a method of this name. A note is made above
        the limits."""
        is_integer = not value.is_floating_point() and _address(value) in self._integers
        self._num_values += value.numel()
        self._num_floats += 0 if is_integer else value.numel()
        # Over the whole call: a tensor could leave one value at a time.
        if self._num_floats > MAX_FLOATS or self._num_values > MAX_VALUES:
            self.notes[f"leaves.{name}"] += 1

    def before_operator(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
    ) -> None:
        if name == _TO_SCALAR:
            self.leaves_by_method("item", args[0])
        elif name == _TO:
            self._note_to(args[0], kwargs or {})
        elif name in _COPIES:
            to, source = args[0], args[1]
            if to.device.type == "cpu" and source.device.type != "cpu":
                self.leaves("copy_", source)
            if not _is_kept(source.dtype, to.dtype):
                self.notes[f"converts.copy_ ({source.dtype} to {to.dtype})"] += 1
            self._note_marks(name, (to, source))
        elif name == _CLONE:
            self._note_marks(name, args[:1])
        elif name in _FILLS:
            self._num_fills += 1
            # Many fills could write a result into memory, one value at a time.
            if self._num_fills > MAX_ENTERING:
                self.notes["leaves.enters again"] += 1
        elif name in _LIFTS:
            self._num_entered += args[0].numel()
            if args[0].numel() > MAX_ENTERING or self._num_entered > MAX_ENTERED:
                self.notes["leaves.enters again"] += 1
        if name in _LIFTS:
            self._note_all(_tensors(args))
        for storage in tree_leaves(args):
            if isinstance(storage, torch.UntypedStorage):
                self._check_storage(storage, storage.nbytes())
        self._check_all(_tensors(args))

    def _note_to(self, source: torch.Tensor, kwargs: Mapping[str, Any]) -> None:
        """`Tensor.to`, `cpu` and `cuda`: a copy between devices may carry few values; a copy of
        another type computes."""
        to = kwargs.get("dtype") or source.dtype
        if to != source.dtype:
            self.notes[f"converts.to ({source.dtype} to {to})"] += 1
        kind = torch.device(kwargs.get("device") or source.device).type
        if kind != source.device.type:
            if kind == "cpu":
                self.leaves("to", source)
            elif source.numel() > MAX_ENTERING:
                self.notes["leaves.enters again"] += 1
        self._note_marks(_TO, (source,))

    def _note_marks(self, name: str, tensors: tuple[torch.Tensor, ...]) -> None:
        """Note that a copy computes: values are marked as conjugate or negative."""
        if any(t.is_conj() or t.is_neg() for t in tensors):
            self.notes[f"converts.{name} (of conjugate or negative values)"] += 1

    def after_operator(self, args: tuple[Any, ...], result: Any) -> None:
        self._note_all([*_tensors(args), *_tensors(result)])

    def read_from_storage(self, name: str, num_bytes: int) -> None:
        """Count values that leave by a method of a storage."""
        self._num_values += num_bytes
        if self._num_values > MAX_VALUES:
            self.notes[f"leaves.storage {name}"] += 1

    # -- kernels

    def before_launch(self, args: tuple[Any, ...]) -> None:
        """Checks the arguments of a kernel before it runs: values in host memory leave to the GPU,
        and no digest may have changed."""
        tensors = list(_arguments(args))
        self._numbers.update(_numbers(args))
        if len(self._numbers) > MAX_ENTERED:
            self.notes["leaves.enters again"] += 1
        # A kernel on a GPU that gets a CPU tensor reads host memory, which no copy has counted.
        devices = {tensor.device.type for tensor in tensors}
        if len(devices) > 1:
            for tensor in tensors:
                if tensor.device.type == "cpu":
                    self.leaves("host memory", tensor)
        self._check_all(tensors)
        if self._memory is not None:
            for address in self._memory.pointed_to(_tables(tensors)):
                self._note_if_changed(address)

    def after_launch(self, args: tuple[Any, ...]) -> None:
        """Takes new digests of the memory that the kernel may have written: its arguments, and
        memory at addresses that arguments of 64-bit integers hold."""
        if self._memory is None:
            return
        tensors = list(_arguments(args))
        self._note_all(tensors)
        for address in self._memory.pointed_to(_tables(tensors)):
            self._memory.renew(address)

    def end(self, outputs: Iterable[torch.Tensor]) -> None:
        """Checks the tensors that the call returns."""
        self._check_all(list(outputs))

    # -- memory

    def _check_all(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            storage = torch.Tensor.untyped_storage(tensor)
            if storage.data_ptr() not in self._own and _is_foreign(tensor):
                self.notes["leaves.enters again"] += 1
            self._check_storage(storage, storage.nbytes() // tensor.itemsize)

    def _check_storage(self, storage: torch.UntypedStorage, num_values: int) -> None:
        """Notes memory that was changed by others, or that no operator of the call has made.

        Args:
            num_values: the number of values that the storage has room for.
        """
        if self._memory is None or storage.device.type != "cpu" or not num_values:
            return
        if self._memory.knows(storage):
            self._note_if_changed(storage.data_ptr())
            return
        self._memory.note_storage(storage)
        self._num_entered += num_values
        if num_values > MAX_ENTERING or self._num_entered > MAX_ENTERED:
            self.notes["leaves.enters again"] += 1

    def _note_if_changed(self, address: int) -> None:
        if self._memory is not None and self._memory.has_changed(address):
            self.notes["leaves.written by others"] += 1

    def _note_all(self, tensors: Iterable[torch.Tensor]) -> None:
        if self._memory is not None:
            for tensor in tensors:
                if tensor.device.type == "cpu":
                    self._memory.note(tensor)


class Departures(TorchFunctionMode):
    """While active, tells `crossings` of methods by which values leave PyTorch."""

    def __init__(self, crossings: Crossings) -> None:
        super().__init__()
        self._crossings = crossings

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        is_leaving = name in _LEAVING and args and isinstance(args[0], torch.Tensor)
        if is_leaving and _len_torch_dispatch_stack():
            self._crossings.leaves_by_method(name, args[0])
        return func(*args, **(kwargs or {}))


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))


def _arguments(args: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    """Yields the tensors among the arguments of a kernel: alone, in tuples, and in tensor
    descriptors."""
    for leaf in tree_leaves(args):
        tensor = getattr(leaf, "base", None) if not isinstance(leaf, torch.Tensor) else leaf
        if isinstance(tensor, torch.Tensor):
            yield tensor


def _address(tensor: torch.Tensor) -> int:
    return int(torch.Tensor.untyped_storage(tensor).data_ptr())


def _numbers(args: tuple[Any, ...]) -> set[float]:
    """Returns the floats among the arguments of a kernel, and all numbers in tuples. Integers alone
    are sizes and offsets, of which many launches need many."""
    inner = [value for arg in args if isinstance(arg, tuple) for value in tree_leaves(arg)]
    return {value for value in args if type(value) is float} | {
        value for value in inner if type(value) in (int, float)
    }


def _tables(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [t for t in tensors if t.dtype is torch.int64 and t.device.type == "cpu"]


def _is_foreign(tensor: torch.Tensor) -> bool:
    """Whether the memory belongs to another library, such as NumPy, and is larger than a small
    table."""
    if tensor.device.type != "cpu" or tensor.numel() <= MAX_ENTERING:
        return False
    # PyTorch cannot resize memory that it has not allocated.
    return not torch.Tensor.untyped_storage(tensor).resizable()


def _is_kept(source: torch.dtype, to: torch.dtype) -> bool:
    """Whether every value of one type is the same in the other, and of the same kind."""
    if source == to:
        return True
    kinds = [(d.is_floating_point, d.is_complex, d is torch.bool) for d in (source, to)]
    return kinds[0] == kinds[1] and torch.promote_types(source, to) == to


_active: list[Crossings] = []
"""The counters of the watched call in progress; empty between calls."""


@contextmanager
def counted(crossings: Crossings) -> Iterator[None]:
    """Makes storages and DLPack report to `crossings` inside."""
    _active.append(crossings)
    try:
        yield
    finally:
        _active.clear()


def watch_storages() -> None:
    """Counts reads of storages and hand-overs by DLPack from here on, in this process."""
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        for name in _READING:
            if (stock := getattr(kind, name, None)) is not None:
                setattr(kind, name, _counting(stock))
    for module, name in ((torch.utils.dlpack, "to_dlpack"), (torch._C, "_to_dlpack")):
        setattr(module, name, _counting_tensor(getattr(module, name)))


def _counting_tensor(stock: Any) -> Any:
    @disguised(stock)
    def function(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if _active:
            _active[-1].leaves_by_method("to_dlpack", tensor)
        return stock(tensor, *args, **kwargs)

    return function


def _counting(stock: Any) -> Any:
    @disguised(stock)
    def method(storage: Any, *args: Any, **kwargs: Any) -> Any:
        if _active:
            _active[-1].read_from_storage(stock.__name__, 1 if args else len(storage))
        return stock(storage, *args, **kwargs)

    return method
