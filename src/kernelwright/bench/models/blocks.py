"""The distinct blocks of a model. Blocks of the same class and sizes count as one, so only one of
them is measured."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelwright.bench.models.zoo import ModelCall
from kernelwright.core.record import Record

Key = tuple[object, ...]
"""The class, switches and sizes of a block, and the sizes of its arguments (`_key`)."""


@dataclass(kw_only=True, slots=True)
class Block:
    """Blocks of the same class and size, and the first call of the first such block."""

    name: str
    """Path of the first such block in the model."""
    call: ModelCall
    calls: int = 0
    """Calls that these blocks receive in one call of the model."""
    modules: set[int] = field(default_factory=set)
    """`id` of each of these blocks. Their number is the count of the record."""

    @property
    def facts(self) -> Record:
        """The fields of `core.kinds.models.BlockFields`."""
        kind = type(self.call.module).__name__
        count = len(self.modules)
        return {"name": self.name, "kind": kind, "count": count, "calls": self.calls}


def distinct_blocks(call: ModelCall) -> list[Block]:
    """The distinct blocks of a model, in the order of their calls. The model is called once.

    A block is an element of a list of modules, or a module outside of all lists. Modules that
    return their argument, a dropout for example, are no blocks.
    """
    blocks: dict[Key, Block] = {}
    idle: set[Key] = set()  # modules that return their argument

    def before(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        key = _key(module, args, kwargs)
        if key not in blocks:
            # The call may change its arguments, a cache for example.
            own = copy.deepcopy((args, kwargs))
            blocks[key] = Block(name=name, call=ModelCall(module, *own))
        blocks[key].calls += 1
        blocks[key].modules.add(id(module))

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if args and output is args[0]:
            idle.add(_key(module, args, kwargs))

    hooks = []
    paths: dict[nn.Module, str] = {}
    for name, module in _units(call.module, ""):
        paths.setdefault(module, name)  # a module may have several paths
    for module, name in paths.items():
        hooks.append(module.register_forward_pre_hook(partial(before, name), with_kwargs=True))
        hooks.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        with torch.no_grad():
            call.module(*call.args, **call.kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    return [block for key, block in blocks.items() if key not in idle]


def _units(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Path and module of every block below a module, by the rule of `distinct_blocks`.

    Args:
        name: path of the module itself.
    """
    if not any(_is_list(inner) for inner in module.modules()):
        yield name, module
        return
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}".removeprefix(".")
        # An element of a list is a block, unless it is a stage: a list itself, or the owner of one.
        if _is_list(module) and not any(map(_is_list, (child, *child.children()))):
            yield path, child
        else:
            yield from _units(child, path)


def _is_list(module: nn.Module) -> bool:
    """Whether a module is a list of blocks: a container whose children have children themselves, or
    a module with several children of one class."""
    children = list(module.children())
    if not any(any(child.children()) for child in children):
        return False
    if isinstance(module, nn.ModuleList | nn.Sequential):
        return True
    return len(children) > 1 and len(set(map(type, children))) == 1


def _key(module: nn.Module, args: Any, kwargs: Any) -> Key:
    """A key that is equal for two calls if their blocks have the same class and sizes, and their
    arguments the same sizes."""
    sizes = [(tuple(t.shape), t.dtype) for t in [*module.parameters(), *module.buffers()]]
    # Caches are left out: their contents grow from layer to layer in the first call.
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    inputs = [(tuple(tensor.shape), tensor.dtype) for tensor in leaves]
    # The rates of dropouts differ from layer to layer, and change nothing in eval mode.
    parts = [
        (name, type(inner), inner.extra_repr(), _settings(inner))
        for name, inner in module.named_modules()
        if "drop" not in type(inner).__name__.lower()
    ]
    return (*parts, tuple(sizes), tuple(inputs))


def _settings(module: nn.Module) -> tuple[object, ...]:
    """The switches of a module: booleans and texts among its attributes.

    Layers of one class may differ in their switches, for example in the kind of attention. Integers
    are left out, because the number of a layer in the model is an integer.
    """
    attributes = ((name, value) for name, value in vars(module).items() if name != "training")
    return tuple((name, value) for name, value in attributes if isinstance(value, bool | str))
