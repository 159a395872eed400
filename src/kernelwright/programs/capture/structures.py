"""Objects in a module's inputs and results: caches, dataclasses, instances of the user's classes.

PyTorch's trees know tuples, lists and dicts. This module registers other Python classes as nodes
too: the children of a node are the attributes of the object. A class that is registered already,
for example by its own library, keeps that registration.
"""

import contextlib
import dataclasses
import enum
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.programs.capture.state import DataAsDetached, Snapshot

PLAIN = (torch.Tensor, bool, int, float, str, type(None))
"""Types of leaves that a capture takes."""
_FIXED = (
    enum.Enum, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size,
    range, slice, bytes, complex, frozenset,
)  # fmt: skip
"""Types of attributes that are one value each, and do not change."""
_HEAP_TYPE = 1 << 9
"""The flag of a class that a Python statement made."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """An attribute that holds no tensor: a number or a dtype, say. It has no leaves."""

    value: Any


@dataclass(frozen=True, slots=True)
class Alias:
    """A part of a result that is one of the mutable inputs itself."""

    index: int
    """The position of the part in `mutable_parts`."""


def _itself(value: Any) -> Any:
    return value


_taken_apart: set[type] = set()
"""Classes that `register` has made nodes by their attributes."""


def register(tree: Any) -> None:
    """Registers the class of every object in a tree, at any depth, as a node by its attributes.

    Raises:
        TypeError: an object cannot be a node: an iterator, a set of tensors, a module, or an object
            that holds itself.
    """
    try:
        # An object of a new class is a leaf at first. After its registration the object has leaves
        # of its own, hence the recursion.
        for leaf in pytree.tree_leaves(tree):
            if isinstance(leaf, enum.Enum):
                _register_constant(type(leaf))
            elif not isinstance(leaf, PLAIN):
                _register_kind(type(leaf))
                register(leaf)
    except RecursionError as error:
        raise TypeError("an object that holds itself") from error


def is_taken_apart(kind: type) -> bool:
    """Whether `register` has made objects of this class nodes by their attributes."""
    return kind in _taken_apart


def register_kinds(*specs: pytree.TreeSpec) -> None:
    """Registers all classes in tree specs that another process made.

    Raises:
        TypeError: a class cannot be a node (see `register`).
    """
    for spec in specs:
        if isinstance(spec.type, type):
            _register_kind(spec.type)
        register_kinds(*spec.children())


def class_modules(*specs: pytree.TreeSpec) -> set[str]:
    """Names of the modules that define the classes of a tree's nodes."""
    modules: set[str] = set()
    for spec in specs:
        kinds = (spec.type, spec.context)
        modules.update(kind.__module__ for kind in kinds if isinstance(kind, type))
        modules |= class_modules(*spec.children())
    return modules - {"builtins"}


def _register_kind(kind: type) -> None:
    if kind in pytree.SUPPORTED_NODES:
        return
    # `_unflatten` makes objects by `object.__new__` and sets attributes. Classes written in C, or
    # with a `__new__` of their own, hold state that this would lose.
    maker: Any = kind.__new__
    is_object = bool(kind.__flags__ & _HEAP_TYPE) and maker is object.__new__
    if not is_object or issubclass(kind, torch.nn.Module) or hasattr(kind, "__next__"):
        raise TypeError(f"a {kind.__name__}")
    pytree.register_pytree_node(
        kind,
        _flatten,
        partial(_unflatten, kind),
        flatten_with_keys_fn=_flatten_with_keys,
    )
    _taken_apart.add(kind)


def _register_constant(
    kind: type, content: Callable[[Any], Any] = _itself, made: Callable[[Any], Any] = _itself
) -> None:
    """Registers a class whose values have no leaves: the content is part of the tree's spec."""
    if kind not in pytree.SUPPORTED_NODES:
        pytree.register_pytree_node(
            kind,
            lambda value: ([], content(value)),
            lambda _, context: made(context),
            flatten_with_keys_fn=lambda value: ([], content(value)),
        )


_register_constant(Fixed, lambda fixed: fixed.value)
_register_constant(Alias, lambda alias: alias.index, Alias)


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object by name, including those in slots."""
    slots = (name for kind in type(value).__mro__ for name in _slots(kind))
    named = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return named | getattr(value, "__dict__", {})


def _slots(kind: type) -> Sequence[str]:
    names = vars(kind).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _flatten(value: Any) -> tuple[list[Any], tuple[str, ...]]:
    named = _attributes(value)
    return [_boxed(item) for item in named.values()], tuple(named)


def _flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
    items, names = _flatten(value)
    return [(pytree.GetAttrKey(k), v) for k, v in zip(names, items, strict=True)], names


def _unflatten(kind: type, items: Sequence[Any], names: Sequence[str]) -> Any:
    value: Any = object.__new__(kind)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(value, name, item)
    return value


def _boxed(value: Any) -> Any:
    """The value of an attribute as a tree, with every value without tensors inside a `Fixed`."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(_boxed, value))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return kind(*map(_boxed, value))
    if kind is dict:
        return {key: _boxed(item) for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (*PLAIN, *_FIXED)):
        return Fixed(value)
    if kind in pytree.SUPPORTED_NODES:
        return value
    if isinstance(value, set) and not any(isinstance(item, torch.Tensor) for item in value):
        return Fixed(frozenset(value))
    _register_kind(type(value))
    return value


def mutable_parts(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The lists, dicts and objects that a call may change in place, by path: "args[0]".

    Only the outermost are listed: a list inside a dict is part of the dict."""
    parts: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if type(value) in (list, dict) or is_taken_apart(type(value)):
            parts[path] = value
        elif type(value) is tuple:
            for i, item in enumerate(value):
                walk(f"{path}[{i}]", item)

    for i, value in enumerate(args):
        walk(f"args[{i}]", value)
    for name, value in kwargs.items():
        walk(f"kwargs['{name}']", value)
    return parts


def plain_values(tree: Any, text: Callable[[tuple[Any, ...]], str]) -> Iterator[tuple[str, Any]]:
    """(path, value) of each number, flag, text or None in a tree, those in objects too.

    Args:
        text: turns a path of PyTorch's trees into text.
    """
    leaves = pytree.tree_flatten_with_path(tree, is_leaf=lambda node: isinstance(node, Fixed))[0]
    for path, leaf in leaves:
        value = leaf.value if isinstance(leaf, Fixed) else leaf
        if isinstance(value, PLAIN) and not isinstance(value, torch.Tensor | enum.Enum):
            yield text(path), value


def become(part: Any, new: Any) -> None:
    """Replaces the content of a list, dict or object, in place, by that of another object."""
    if isinstance(part, list):
        part[:] = new
    elif isinstance(part, dict):
        part.clear()
        part.update(new)
    else:
        after = _attributes(new)
        for name in _attributes(part).keys() - after.keys():
            object.__delattr__(part, name)
        for name, value in after.items():
            object.__setattr__(part, name, value)


def resolved(result: Any, parts: Sequence[Any]) -> Any:
    """A result with the mutable inputs themselves in place of each `Alias`."""
    return pytree.tree_map(
        lambda leaf: parts[leaf.index] if isinstance(leaf, Alias) else leaf,
        result,
        is_leaf=lambda node: isinstance(node, Alias),
    )


def has_alias(spec: pytree.TreeSpec) -> bool:
    """Whether a tree of this structure holds an `Alias`."""
    return spec.type is Alias or any(map(has_alias, spec.children()))


class Boundary(torch.nn.Module):
    """A module that returns, beside the result of another, the inputs that the call changed.

    Its result is a pair: the result of `inner`, with an `Alias` for each part that is an input
    itself; and a dict of the mutable inputs that the call changed, by their place in
    `mutable_parts`.
    """

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.changed_state: set[str] = set()
        """Attributes of `inner` that a call changed, without those that the capture sees."""
        vars(self)["forward"] = self._forward_like(inner.forward)

    def _forward_like(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)  # the capture names inputs by the signature
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            # The identities of leaves are noted before the call: a functional graph does not show
            # that a cache has another tensor afterwards.
            parts = list(mutable_parts(args, kwargs).values())
            before = [pytree.tree_flatten(part) for part in parts]
            state = Snapshot(self.inner)
            with DataAsDetached():
                result = self.inner(*args, **kwargs)
            # The capture may call forward twice, and a filled cache changes in the first call only.
            self.changed_state |= state.changes(self.inner)
            try:
                register((result, parts))
            except TypeError as error:
                raise ResultError(str(error)) from error
            changed = {i: p for i, p in enumerate(parts) if _is_other(before[i], p)}
            # A caller expects the very cache that was passed in, not an equal copy.
            indices = {id(part): i for i, part in enumerate(parts)}
            aliased = pytree.tree_map(
                lambda leaf: Alias(indices[id(leaf)]) if id(leaf) in indices else leaf,
                result,
                is_leaf=lambda node: id(node) in indices,
            )
            return aliased, changed

        return wrapped


class ResultError(TypeError):
    """A module returned an object that no tree can hold; the text names the object."""


def _is_other(before: tuple[list[Any], pytree.TreeSpec], part: Any) -> bool:
    """Whether the part holds other values than before.

    Tensors are compared by identity: their values do not exist during a capture.
    """
    leaves, spec = pytree.tree_flatten(part)
    same = len(leaves) == len(before[0]) and all(
        a is b if isinstance(a, torch.Tensor) else type(a) is type(b) and a == b
        for a, b in zip(leaves, before[0], strict=False)
    )
    return not same or spec != before[1]


@contextlib.contextmanager
def kept(module: torch.nn.Module) -> Iterator[None]:
    """A context that restores every attribute of the module and its parts on exit.

    A forward may fill a cache of its own during a capture. Without this, the cache would keep fake
    tensors, which have no memory.
    """
    before = [
        (part, dict(vars(part)), [(v, v.copy()) for v in _containers(part)])
        for part in module.modules()
        if not isinstance(part, torch.jit.ScriptModule)
    ]
    try:
        yield
    finally:
        for part, named, containers in before:
            vars(part).clear()
            vars(part).update(named)
            for value, content in containers:
                become(value, content)


def _containers(part: torch.nn.Module) -> list[Any]:
    """Lists and dicts among a module's attributes, at any depth."""
    containers: dict[int, Any] = {}
    pending = list(vars(part).values())
    while pending:
        value = pending.pop()
        if type(value) in (list, dict) and id(value) not in containers:
            containers[id(value)] = value
            pending.extend(value.values() if isinstance(value, dict) else value)
    return list(containers.values())


def fields_of(kind: type) -> frozenset[str]:
    """The fields that the constructor of a dataclass takes; empty for any other class."""
    if not dataclasses.is_dataclass(kind):
        return frozenset()
    return frozenset(field.name for field in dataclasses.fields(kind) if field.init)
