"""Guest side: the instances of one candidate's `ModelNew`, and the outputs of their calls."""

import gc
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from math import isfinite
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from kernelwright.sandbox.shared.tensors import TensorMeta

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_PLAIN = (bool, int, float, str)
_MAX_ATTRIBUTES, _MAX_TEXT = 4096, 200

Entry = tuple[str, str, torch.Tensor]
"""(state_dict name, "parameter" or "buffer", tensor)."""


class Instances:
    """Modules by number.

    Args:
        construct: makes a module for an `init` of `Guest.load`; None where the candidate is a
            function.
    """

    def __init__(self, construct: Callable[[dict[str, Any]], torch.nn.Module] | None) -> None:
        self._construct = construct
        self._modules: dict[int, torch.nn.Module] = {}
        self._num_made = 0

    def add(self, module: torch.nn.Module) -> int:
        self._modules[self._num_made] = module
        self._num_made += 1
        return self._num_made - 1

    def construct(self, init: dict[str, Any]) -> int:
        if self._construct is None:
            raise ValueError("a function has no instances")
        return self.add(self._construct(init))

    def duplicate(self, number: int) -> int:
        return self.add(deepcopy(self._modules[number]))

    def move(self, number: int) -> None:
        """Moves parameters and buffers to other memory, as `.to` another device and back does."""
        module = self._modules[number]
        device = next((t.device for _, _, t in self.entries(number)), torch.device("cpu"))
        if device.type == "cuda":
            self._modules[number] = module.to("cpu").to(device)
        else:
            self._modules[number] = module._apply(torch.clone)  # type: ignore[no-untyped-call]

    def train(self, number: int, *, is_training: bool) -> None:
        self._modules[number].train(is_training)

    def drop(self, number: int) -> None:
        self._modules.pop(number, None)

    def get(self, number: int) -> torch.nn.Module:
        return self._modules[number]

    def entries(self, number: int) -> list[Entry]:
        """Returns parameters and buffers; tied ones under each of their names."""
        module = self._modules.get(number)
        if module is None:
            return []
        return [
            (f"{prefix}.{name}".removeprefix("."), kind, tensor)
            for kind, attribute in (("parameter", "_parameters"), ("buffer", "_buffers"))
            for prefix, part in _parts(module)
            for name, tensor in dict.items(vars(part).get(attribute) or {})
            if tensor is not None
        ]

    def load(self, number: int, names: Sequence[str], values: Sequence[Any], how: str) -> None:
        """Sets parameters and buffers of these names; others, and other shapes, are left out.

        Args:
            how: "copy" (in place), "load_state_dict", "assign" (`load_state_dict` with new
                objects), or "data" (new memory, no version bump).
        """
        entries = {name: tensor for name, _, tensor in self.entries(number)}
        fitting = {
            name: value
            for name, value in zip(names, values, strict=True)
            if name in entries and entries[name].shape == value.shape
        }
        with torch.no_grad():
            if how in ("load_state_dict", "assign"):
                # persistent entries by the module's own method, the others in place
                module = self._modules[number]
                persistent = fitting.keys() - _passing(module)
                module.load_state_dict(
                    {n: v.to(entries[n]) for n, v in fitting.items() if n in persistent},
                    strict=False,
                    assign=how == "assign",
                )
                fitting = {n: v for n, v in fitting.items() if n not in persistent}
            for name, value in fitting.items():
                if how == "data":
                    entries[name].data = value.to(entries[name].dtype).clone()
                else:
                    entries[name].copy_(value)

    def attributes(self, number: int) -> dict[str, Any]:
        """Returns plain attributes of the module and its parts by path: numbers and strings as they
        are, other values by the name of their type."""
        attributes: dict[str, Any] = {}
        module = self._modules.get(number)
        seen: set[int] = set()
        for prefix, part in [] if module is None else _parts(module):
            if id(part) in seen:
                continue
            seen.add(id(part))
            for name, value in vars(part).items():
                if name in _OF_EVERY_MODULE or len(attributes) >= _MAX_ATTRIBUTES:
                    continue
                path = f"{prefix}.{name}".removeprefix(".")
                attributes[path] = _described(value)
        return attributes


def _parts(module: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Returns the module and all modules in it by path, shared ones under each of their names.

    No method of the modules is called: a candidate that overrides one would notice the question.
    """
    parts: list[tuple[str, torch.nn.Module]] = []
    todo = [("", module, frozenset[int]())]
    while todo:
        path, part, above = todo.pop()
        parts.append((path, part))
        inner = dict.items(vars(part).get("_modules") or {})
        todo += [
            (f"{path}.{name}".removeprefix("."), child, above | {id(part)})
            for name, child in reversed(list(inner))
            # A module that contains itself would never end.
            if child is not None and id(child) not in above | {id(part)}
        ]
    return parts


def _passing(module: torch.nn.Module) -> set[str]:
    """Returns names of buffers that are no part of the state_dict."""
    return {
        f"{prefix}.{name}".removeprefix(".")
        for prefix, part in _parts(module)
        for name in vars(part).get("_non_persistent_buffers_set") or ()
    }


def _described(value: object) -> Any:
    if type(value) is float and not isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in _PLAIN:
        return value if not isinstance(value, str) else value[:_MAX_TEXT]
    return {"type": type(value).__name__[:_MAX_TEXT]}


class Held:
    """Keeps outputs of calls, to see whether later calls write to them."""

    def __init__(self) -> None:
        self._calls: list[list[tuple[torch.Tensor, torch.Tensor]]] = []

    def add(self, outputs: Sequence[torch.Tensor], ours: Iterable[Any] = ()) -> int:
        """Keeps the outputs of a call. Returns the bytes of all tensors that the candidate keeps,
        without outputs that are kept here.

        Args:
            ours: values that the guest itself keeps; their tensors do not count.
        """
        self._calls.append([(output, output.clone()) for output in outputs])
        gc.collect()
        kept = [tensor for call in self._calls for pair in call for tensor in pair]
        mine = {0, *(address for address, _ in map(_memory, (*kept, *ours)))}
        living = dict(map(_memory, gc.get_objects()))
        return sum(size for address, size in living.items() if address not in mine)

    def overwritten(self, outputs: Sequence[torch.Tensor]) -> list[int]:
        """Returns numbers of kept outputs that changed after their call, or share memory with
        `outputs`."""
        return sorted(
            {
                number
                for call in self._calls
                for number, (output, copy) in enumerate(call)
                if not _is_same(output, copy) or any(overlap(output, new) for new in outputs)
            }
        )

    def let_go(self) -> int:
        """Forgets the outputs. Returns the number of calls with an output whose memory lives on:
        the candidate keeps it."""
        refer: Any = StorageWeakRef
        left = [
            [refer(_storage(output)) for output, _ in call if output.numel()]
            for call in self._calls
        ]
        self._calls.clear()
        gc.collect()  # a cycle of the candidate's does not keep its outputs for good
        return sum(any(not reference.expired() for reference in call) for call in left)


def _memory(value: object) -> tuple[int, int]:
    """Returns the address and the bytes of a dense tensor's storage; zeros for any other value, and
    for tensors without memory: fake ones, which torch.compile keeps, and uninitialised ones."""
    # `isinstance` may run code of the value's class.
    if not issubclass(type(value), torch.Tensor):
        return 0, 0
    if torch.Tensor.layout.__get__(value) is not torch.strided:  # type: ignore[attr-defined]
        return 0, 0
    try:
        storage = _storage(value)
        return storage.data_ptr(), storage.nbytes()
    except (RuntimeError, ValueError):
        return 0, 0


def _storage(tensor: Any) -> torch.UntypedStorage:
    return torch.Tensor.untyped_storage(tensor)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        return False
    both_nan = (one != one) & (other != other)
    return bool(((one == other) | both_nan).all())


def overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether the spans of storage under two tensors have bytes in common."""
    left_bytes, right_bytes = (TensorMeta.of(t).span_bytes for t in (left, right))
    if not left_bytes or not right_bytes:
        return False
    return (
        left.data_ptr() < right.data_ptr() + right_bytes
        and right.data_ptr() < left.data_ptr() + left_bytes
    )
