"""The tensors in the arguments and results of a model's call: in nested values, and in the caches
of decoders."""

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from kernelwright.bench.models.zoo import ModelCall


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a nested value, those of caches included."""
    leaves = [inner for leaf in tree_leaves(value) for inner in (leaf, *_contents(leaf))]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def changed(call: ModelCall, device: torch.device, *, is_wide: bool = False) -> ModelCall:
    """A copy of a call, with all its tensors on a device.

    Args:
        is_wide: the floating-point tensors of the copy are float64.
    """
    module, args, kwargs = copy.deepcopy((call.module, call.args, call.kwargs))

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        is_float = is_wide and tensor.is_floating_point()
        return tensor.to(device, torch.float64 if is_float else tensor.dtype)

    on_device = partial(tree_map_only, torch.Tensor, moved)
    for layer in (layer for leaf in tree_leaves((args, kwargs)) for layer in _layers(leaf)):
        vars(layer).update(on_device(dict(vars(layer))))
    module._apply(moved)  # type: ignore[no-untyped-call]
    return ModelCall(module, on_device(args), on_device(kwargs))


class CacheState:
    """A snapshot of all caches among the arguments of a call.

    A decoder's call writes into its cache. But all measured calls must begin with the same
    contents, so `restore` is called before each of them.
    """

    def __init__(self, call: ModelCall) -> None:
        lists = [_layers(leaf) for leaf in tree_leaves((call.args, call.kwargs))]
        self._lists = [(layers, list(layers)) for layers in lists]
        self._attributes = [(layer, dict(vars(layer))) for layers in lists for layer in layers]
        contents = [attributes for _, attributes in self._attributes]
        self._tensors = [(tensor, tensor.clone()) for tensor in tensors_of(contents)]

    def restore(self) -> None:
        """Give all caches the contents that they had when the snapshot was taken."""
        for layers, kept in self._lists:
            layers[:] = kept
        for layer, attributes in self._attributes:
            vars(layer).clear()
            vars(layer).update(attributes)
        for tensor, contents in self._tensors:
            tensor.copy_(contents)


def _layers(leaf: Any) -> list[Any]:
    """The layers of a cache of transformers; an empty list for other values."""
    layers = getattr(leaf, "layers", None)
    return layers if isinstance(layers, list) else []


def _contents(leaf: Any) -> Iterator[Any]:
    """The attributes of a cache's layers, flat; nothing for other values."""
    for layer in _layers(leaf):
        yield from tree_leaves(dict(vars(layer)))
