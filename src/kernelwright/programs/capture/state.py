"""Changes of a module by its forward, beside the changes that a capture sees.

A capture sees changes of buffers in place. The other changes are listed here. If the result depends
on one of them, a program would give the result of the first call for ever.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.overrides import TorchFunctionMode

_OF_TORCH = frozenset(vars(torch.nn.Module())) - {"training"}
"""Attributes by which PyTorch keeps parameters, parts and hooks."""
_SEED = 0
_Flat = tuple[list[Any], Any]
"""The leaves of an attribute, and their structure."""


class StateError(TypeError):
    """A forward changes its module in a way that no program can repeat; the text names the way."""


class DataAsDetached(TorchFunctionMode):
    """A mode in which `x.data` is `x.detach()`, and `x.data = y` copies y into x.

    `torch.export` follows neither. Under `no_grad` both compute the same as the original.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__self__", None) is not torch.Tensor.data:
            return func(*args, **(kwargs or {}))
        tensor, *assigned = args
        if not assigned:
            return tensor.detach()
        if not is_alike(tensor, assigned[0]):
            raise StateError("forward assigns a tensor of another shape or dtype to .data")
        tensor.copy_(assigned[0])
        return None


def is_alike(one: torch.Tensor, other: object) -> bool:
    """Whether the other is a tensor of the same shape and dtype."""
    if not isinstance(other, torch.Tensor):
        return False
    return (one.shape, one.dtype) == (other.shape, other.dtype)


class Snapshot:
    """The attributes of a module and its parts at one moment: identities of tensors, and values."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._values = dict(_attributes(module))
        self._parameters = dict(module.named_parameters(remove_duplicate=False))

    def changes(self, module: torch.nn.Module) -> set[str]:
        """Names of the attributes that are new or have changed since.

        Raises:
            StateError: a parameter is another tensor than before.
        """
        changed = {
            name
            for name, now in _attributes(module)
            if name not in self._values or not _is_same(self._values[name], now)
        }
        parameters = dict(module.named_parameters(remove_duplicate=False))
        for name in sorted(changed & self._parameters.keys()):
            if parameters.get(name) is not self._parameters[name]:
                raise StateError(f"forward assigns a new tensor to the parameter {name!r}")
        return changed


def _attributes(module: torch.nn.Module) -> Iterator[tuple[str, _Flat]]:
    for path, part in module.named_modules():
        own = {name: value for name, value in vars(part).items() if name not in _OF_TORCH}
        for name, value in (own | part._parameters | part._buffers).items():
            yield f"{path}.{name}".removeprefix("."), _flat(value)


def _flat(value: Any) -> _Flat:
    """The leaves of a list, tuple or dict; any other object is one leaf."""
    with suppress(RecursionError):  # a list that holds itself
        leaves, structure = pytree.tree_flatten(value)
        return leaves, structure
    return [value], None


def _is_same(before: _Flat, now: _Flat) -> bool:
    if before[1] != now[1]:
        return False
    return all(
        one is other or _is_equal(one, other) for one, other in zip(before[0], now[0], strict=True)
    )


def _is_equal(one: Any, other: Any) -> bool:
    plain = (bool, int, float, complex, str, bytes, type(None))
    return isinstance(one, plain) and type(one) is type(other) and one == other


def matters(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    changed: Collection[str],
) -> bool:
    """Whether a second call with the same inputs has another result because of these attributes.

    The module runs twice. All other tensors of the module have their old values in the second call.

    Args:
        changed: qualified names of attributes that forward changes.
    """
    kept = [
        (part, table, name, value, value.clone())
        for path, part in module.named_modules()
        for table in (part._buffers, vars(part))
        for name, value in table.items()
        if isinstance(value, torch.Tensor) and f"{path}.{name}".removeprefix(".") not in changed
    ]

    def result() -> Any:
        copies = pytree.tree_map(
            lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf,
            (args, dict(kwargs)),
        )
        torch.manual_seed(_SEED)
        return pytree.tree_leaves(module(*copies[0], **copies[1]))

    with torch.no_grad(), torch.random.fork_rng():
        first = result()
        for _, table, name, value, before in kept:
            value.copy_(before)
            table[name] = value
        try:
            second = result()
        except Exception:  # whatever the user's forward raises
            return True
        for _, table, name, value, before in kept:
            value.copy_(before)
            table[name] = value
    return len(first) != len(second) or not all(map(_agree, first, second))


def _agree(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor):
        return True
    if not is_alike(one, other):
        return False
    wide = torch.complex128 if one.is_complex() else torch.float64
    return torch.allclose(one.to(wide), other.to(wide), rtol=1e-4, atol=1e-6, equal_nan=True)
