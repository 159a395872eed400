"""Tensors that a module holds as plain attributes, and may change in its forward.

`torch.export` captures changes of buffers only, and misses assignments to attributes. So plain
attributes become buffers during a capture.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from kernelwright.programs.capture.state import is_alike

_TABLES = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"})


@contextmanager
def as_buffers(module: torch.nn.Module) -> Iterator[Mapping[str, torch.Tensor]]:
    """A context in which plain tensor attributes of the module and its parts are buffers.

    Yields the tensors by qualified name. A capture may miss that forward assigns to an attribute.
    So the assigned tensor is copied into the buffer at the end of forward. On exit the module is as
    before. An attribute that the class also defines stays as it is. A tensor that shares memory
    with a parameter is copied first: the older `torch.nn.utils.spectral_norm` leaves such a weight,
    which each call replaces. PyTorch cannot decompose a graph that writes to shared inputs.
    """
    attributes = {
        f"{path}.{name}".removeprefix("."): (part, name, value)
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, torch.Tensor) and not hasattr(type(part), name)
    }
    # An instance may have a forward of its own, which must come back afterwards. Else deletion is
    # enough: the class's forward is then visible again.
    forward = vars(module).get("forward")
    shared = {value.untyped_storage()._cdata for value in module.parameters()}
    for part, name, value in attributes.values():
        delattr(part, name)
        is_shared = value.untyped_storage()._cdata in shared
        part.register_buffer(name, value.clone() if is_shared else value, persistent=False)
    places = [
        (part, name) for part in module.modules() for name, _ in part.named_buffers(recurse=False)
    ]
    if places:
        vars(module)["forward"] = _writing_back(module.forward, places)
    try:
        yield {name: value for name, (_, _, value) in attributes.items()}
    finally:
        if places:
            del vars(module)["forward"]
        if forward is not None:
            vars(module)["forward"] = forward
        for part, name, value in attributes.values():
            delattr(part, name)
            setattr(part, name, value)


def _writing_back(
    forward: Callable[..., Any], places: Sequence[tuple[torch.nn.Module, str]]
) -> Callable[..., Any]:
    """A forward that leaves at each place the same tensor object, with the new values inside."""

    @wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        before = [getattr(part, name) for part, name in places]
        result = forward(*args, **kwargs)
        for (part, name), original in zip(places, before, strict=True):
            now = getattr(part, name)
            if now is not original and is_alike(original, now):
                original.copy_(now)
                setattr(part, name, original)
        return result

    return wrapped


def held(module: torch.nn.Module) -> dict[int, str]:
    """id(tensor) -> the expression by which a method of the module reads the tensor.

    The tensors are those in plain attributes, and in lists, tuples and dicts of attributes.
    """
    expressions: dict[int, str] = {}
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name.isidentifier() and name not in _TABLES:
                _add_held(expressions, text(f"{path}.{name}".removeprefix(".")), value)
    return expressions


def _add_held(expressions: dict[int, str], expression: str, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        expressions.setdefault(id(value), expression)
    elif type(value) in (list, tuple):
        for i, item in enumerate(value):
            _add_held(expressions, f"{expression}[{i}]", item)
    elif type(value) is dict:
        for key, item in value.items():
            if isinstance(key, str | int):
                _add_held(expressions, f"{expression}[{key!r}]", item)


def read(module: torch.nn.Module, name: str) -> torch.Tensor:
    """The attribute of this qualified name."""
    path, _, attribute = name.rpartition(".")
    value: torch.Tensor = getattr(module.get_submodule(path), attribute)
    return value


def write(module: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    """Assigns the attribute of this qualified name."""
    path, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(path), attribute, value)


def text(name: str) -> str:
    """The expression by which a method of the module reads the attribute of a qualified name."""
    path, _, attribute = name.rpartition(".")
    return f'self.get_submodule("{path}").{attribute}' if path else f"self.{attribute}"
