"""Which calls a program computes: structure, shapes, dtypes, devices and plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.search.arguments import Call
from kernelwright.search.sizes.requested import Range, Requested, SizePlace, ranges_text


@dataclass(frozen=True, slots=True)
class Signature:
    """The calls that a program was made for."""

    spec: pytree.TreeSpec
    leaves: tuple[Any, ...]
    """Each leaf as `_described` gives it, with None for dimensions that vary."""
    places: tuple[SizePlace, ...] = ()
    """Dimensions that vary."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """The ranges of the sizes."""

    @classmethod
    def of(cls, example: Call, sizes: Requested | None = None) -> "Signature":
        """The signature of a call, at all sizes that may vary."""
        leaves, spec = pytree.tree_flatten(example)
        if sizes is None:
            return cls(spec, tuple(map(_described, leaves)))
        free = cls(spec, (), sizes.places, sizes.ranges)
        return cls(spec, free._without_sizes(leaves), sizes.places, sizes.ranges)

    def accepts(self, leaves: Sequence[Any], spec: pytree.TreeSpec) -> bool:
        """Whether the program computes a call with these leaves of (args, kwargs)."""
        if not self.places:
            return spec == self.spec and tuple(map(_described, leaves)) == self.leaves
        return self.differs_in_size_alone(leaves, spec) and self._are_in_range(leaves)

    def differs_in_size_alone(self, leaves: Sequence[Any], spec: pytree.TreeSpec) -> bool:
        """Whether nothing but sizes that vary may keep the program from computing a call."""
        return (
            bool(self.places) and spec == self.spec and self._without_sizes(leaves) == self.leaves
        )

    def _without_sizes(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        described = list(map(_described, leaves))
        for place in self.places:
            if isinstance(leaves[place.leaf], torch.Tensor) and leaves[place.leaf].dim():
                shape, *rest = described[place.leaf]
                described[place.leaf] = (_without(shape, place.dim), *rest)
        return tuple(described)

    def _are_in_range(self, leaves: Sequence[Any]) -> bool:
        sizes: dict[str, int] = {}
        for place in self.places:
            # A length that is no multiple of the scale belongs to no size.
            size, rest = divmod(leaves[place.leaf].shape[place.dim] - place.shift, place.scale)
            if rest or sizes.setdefault(place.size, size) != size:
                return False
        return all(self.ranges[name].low <= sizes[name] <= self.ranges[name].high for name in sizes)

    def __str__(self) -> str:
        """The ranges: "batch 1 to 256"."""
        return ranges_text(self.ranges)


def _described(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.dtype, leaf.device
    return leaf


def _without(shape: tuple[int | None, ...], dim: int) -> tuple[int | None, ...]:
    return (*shape[:dim], None, *shape[dim + 1 :])
