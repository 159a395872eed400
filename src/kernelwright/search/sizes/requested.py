"""Reads which sizes vary from `dynamic_shapes`, which has the form that torch.export takes."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import Dim

from kernelwright.core.errors import UsageError
from kernelwright.programs.sizes.fit import Sizes
from kernelwright.search.arguments import Call

OPEN_RANGE = 16
"""Without a maximum, a range ends at this multiple of the example's size."""
MOST_GROWTH = 16
"""How many times as many elements as the example's all sizes together may make."""
_DYNAMIC = re.compile(
    r"(?P<input>\w+):(?P<dim>\d+)(=(?P<size>[A-Za-z_]\w*))?(:(?P<low>\d+)-(?P<high>\d+))?"
)
NUM_BETWEEN = 1
"""Points inside of the ranges, besides one for each size."""


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a size may have, both ends included."""

    low: int
    high: int


def ranges_text(ranges: Mapping[str, Range]) -> str:
    """For example "batch 1 to 256, tokens 2 to 40"."""
    return ", ".join(f"{name} {bounds.low} to {bounds.high}" for name, bounds in ranges.items())


@dataclass(frozen=True, slots=True)
class SizePlace:
    """A dimension of an input: `scale * size + shift` elements."""

    leaf: int
    """Position of the tensor among the leaves of (args, kwargs)."""
    dim: int
    size: str
    """The name of the size."""
    scale: int = 1
    shift: int = 0

    def length(self, sizes: Sizes) -> int:
        return self.scale * sizes[self.size] + self.shift


@dataclass(frozen=True, slots=True)
class Requested:
    """Sizes that vary."""

    places: tuple[SizePlace, ...]
    ranges: Mapping[str, Range]
    example: Sizes
    """The sizes of the example inputs."""

    def points(self) -> list[Sizes]:
        """The sizes at which programs are compared and wholes are judged.

        The sizes of the example come first, then the ends of the ranges, then sizes between. Size 1
        comes last, because PyTorch often computes in another way there.
        """
        # Equal requests get equal points.
        draw = Random(0)
        ends = [{name: _least(self.ranges[name]) for name in self.ranges}, *self._highest()]
        between = [
            {name: draw.randint(_least(r), r.high) for name, r in self.ranges.items()}
            for _ in range(NUM_BETWEEN + len(self.ranges))
        ]
        between = [self._smaller(point) for point in between]
        ones = {name: bounds.low for name, bounds in self.ranges.items()}
        points: list[Sizes] = []
        for sizes in (dict(self.example), *ends, *between, ones):
            if sizes not in points:
                points.append(sizes)
        return points

    def _highest(self) -> Iterator[dict[str, int]]:
        """Yields all sizes at their maximum together; if that is too large, one at a time."""
        every = {name: bounds.high for name, bounds in self.ranges.items()}
        if self._growth(every) <= MOST_GROWTH or len(every) == 1:
            yield every
        else:
            yield from ({**self.example, name: high} for name, high in every.items())

    def _smaller(self, sizes: dict[str, int]) -> dict[str, int]:
        """The sizes, or smaller ones whose tensors are not too large together."""
        while len(sizes) > 1 and self._growth(sizes) > MOST_GROWTH:
            name = max(sizes, key=lambda name: sizes[name] / self.example[name])
            sizes = {**sizes, name: max(sizes[name] // 2, _least(self.ranges[name]))}
            if sizes[name] <= self.example[name]:
                break
        return sizes

    def _growth(self, sizes: Sizes) -> float:
        growth = 1.0
        for name, size in sizes.items():
            growth *= size / self.example[name]
        return growth

    def grown(self, draw: Callable[[], Call], sizes: Sizes) -> Call:
        """Inputs at other sizes, made of the rows of several draws.

        Repeated rows would hide a kernel that reads the wrong row.

        Args:
            draw: makes inputs at the sizes of the example.
        """
        for name in self.ranges:
            draw = partial(self._joined, draw, name, sizes)
        return draw()

    def _joined(self, draw: Callable[[], Call], name: str, sizes: Sizes) -> Call:
        """Inputs with one size changed."""
        leaves, spec = pytree.tree_flatten(draw())
        for leaf in {place.leaf: None for place in self.places if place.size == name}:
            places = [place for place in self.places if (place.leaf, place.size) == (leaf, name)]
            drawn = partial(_leaf_of, draw, leaf)
            leaves[leaf] = _lengthened(drawn, places, sizes, leaves[leaf])
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return args, kwargs

    def resized(self, example: Call, sizes: Sizes) -> Call:
        """The example inputs at other sizes, with rows repeated or cut off. Enough for a capture,
        which depends on shapes alone."""
        leaves, spec = pytree.tree_flatten(example)
        for place in self.places:
            tensor = leaves[place.leaf]
            rows = torch.arange(place.length(sizes), device=tensor.device)
            leaves[place.leaf] = tensor.index_select(place.dim, rows % tensor.shape[place.dim])
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return args, kwargs


def _leaf_of(draw: Callable[[], Call], leaf: int) -> torch.Tensor:
    drawn: torch.Tensor = pytree.tree_leaves(draw())[leaf]
    return drawn


def _lengthened(
    draw: Callable[[], torch.Tensor],
    places: Sequence[SizePlace],
    sizes: Sizes,
    first: torch.Tensor | None = None,
) -> torch.Tensor:
    """A tensor with dimensions at their new lengths, joined of several draws or cut off.

    Args:
        places: the dimensions.
        first: a draw that makes the first part; None: another draw.
    """
    if not places:
        return draw() if first is None else first
    # A square has one size in two dimensions. The parts that are joined along the second have
    # the new length in the first, as torch.cat asks.
    *before, place = places
    length = place.length(sizes)
    parts = [_lengthened(draw, before, sizes, first)]
    while sum(part.shape[place.dim] for part in parts) < length:
        parts.append(_lengthened(draw, before, sizes))
    return torch.cat(parts, dim=place.dim).narrow(place.dim, 0, length).contiguous()


def _least(size_range: Range) -> int:
    return min(max(size_range.low, 2), size_range.high)


def requested(
    forward: Any, example: Call, dynamic_shapes: Mapping[str, Any] | Sequence[Any]
) -> Requested:
    """The sizes that `dynamic_shapes` says vary.

    Args:
        forward: the bound method, for the names of its parameters.
        dynamic_shapes: as of torch.export: by name or in the order of forward's parameters, for
            each tensor a dict of dimensions, or a list with an item for each dimension. Items are
            `torch.export.Dim`s with ranges, `Dim.DYNAMIC`, `Dim.AUTO`, or None and numbers for
            sizes that stay. Dimensions with equal names have equal sizes.

    Raises:
        UsageError: `dynamic_shapes` does not fit the inputs.
    """
    by_name = _by_name(forward, example, dynamic_shapes)
    leaves = pytree.tree_flatten_with_path(example)[0]
    parameters = list(inspect.signature(forward).parameters)
    places: list[SizePlace] = []
    ranges: dict[str, Range] = {}
    sizes: dict[str, int] = {}
    for leaf, (path, value) in enumerate(leaves):
        name = _name(path, parameters)
        spec = by_name.get(name)
        for key in path[2:]:
            spec = _inside(spec, key)
        if spec is None or not isinstance(value, torch.Tensor):
            continue
        for dim, asked in _dims(spec, value, name):
            place, size_range, size = _place(asked, leaf, dim, value.shape[dim], name)
            places.append(place)
            # Several dimensions may have one size: the ranges of all of them hold.
            before = ranges.get(place.size, size_range)
            ranges[place.size] = Range(
                max(before.low, size_range.low), min(before.high, size_range.high)
            )
            if sizes.setdefault(place.size, size) != size:
                raise UsageError(
                    f"size {place.size!r} is {sizes[place.size]} and {size} in the example inputs",
                    remedy="give the dimensions different names, or inputs whose sizes agree",
                )
    if not places:
        raise UsageError("dynamic_shapes names no dimension", remedy='give {"x": {0: Dim("n")}}')
    for name, size in sizes.items():
        if not ranges[name].low <= size <= ranges[name].high:
            raise UsageError(
                f"size {name!r} is {size} in the example inputs, outside of its range"
                f" {ranges[name].low} to {ranges[name].high}",
                remedy="give an example inside the range",
            )
    return Requested(tuple(places), ranges, sizes)


def _by_name(forward: Any, example: Call, shapes: Any) -> Mapping[str, Any]:
    """The request for each parameter of forward."""
    parameters = list(inspect.signature(forward).parameters)
    if not isinstance(shapes, Mapping):
        if len(shapes) > len(parameters):
            raise UsageError(
                f"dynamic_shapes has {len(shapes)} items, forward has {len(parameters)} parameters",
                remedy="give one item for each argument",
            )
        return dict(zip(parameters, shapes, strict=False))
    if unknown := sorted(shapes.keys() - {*parameters, *example[1]}):
        raise UsageError(
            f"dynamic_shapes names {unknown[0]!r}, but forward has no such parameter",
            remedy=f"give one of {', '.join(parameters)}",
        )
    return shapes


def _name(path: tuple[Any, ...], parameters: Sequence[str]) -> str:
    """The parameter of forward that a leaf of (args, kwargs) belongs to."""
    first = path[1]
    if isinstance(first, pytree.SequenceKey):
        return parameters[first.idx] if first.idx < len(parameters) else f"input {first.idx}"
    return str(first.key)


def _inside(spec: Any, key: Any) -> Any:
    """The request for an item of a list, a dict or an object."""
    if spec is None:
        return None
    if isinstance(key, pytree.SequenceKey):
        return spec[key.idx] if key.idx < len(spec) else None
    name = key.key if isinstance(key, pytree.MappingKey) else getattr(key, "name", None)
    return spec.get(name) if isinstance(spec, Mapping) else getattr(spec, str(name), None)


def _dims(spec: Any, value: torch.Tensor, name: str) -> Iterator[tuple[int, Any]]:
    """(dimension, what is asked) of a tensor's dimensions that may vary."""
    items = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
    for dim, asked in items:
        if not isinstance(dim, int) or not -value.dim() <= dim < value.dim():
            raise UsageError(
                f"dynamic_shapes gives dimension {dim!r} of {name}, which has {value.dim()}",
                remedy=f"give numbers from 0 to {value.dim() - 1}",
            )
        if asked is not None and not isinstance(asked, int) and asked is not Dim.STATIC:
            yield dim % value.dim(), asked


def _place(asked: Any, leaf: int, dim: int, length: int, name: str) -> tuple[SizePlace, Range, int]:
    """A dimension, the range of its size, and the size in the example."""
    # A derived dimension of torch.export is a * root + b. Its function at 0 and 1 gives b and a.
    root = getattr(asked, "root", None)  # of twice another size, say
    scale, shift = 1, 0
    if root is not None:
        shift = int(asked.fn(0))
        scale = int(asked.fn(1)) - shift
        if (length - shift) % scale:
            raise UsageError(
                f"dimension {dim} of {name} is {length}, which is not {asked.__name__}",
                remedy="give an example that fits",
            )
    size = (length - shift) // scale
    dim_of = asked if root is None else root
    label = str(getattr(dim_of, "__name__", "") or f"{name}_{dim}")
    low, high = getattr(dim_of, "min", None), getattr(dim_of, "max", None)
    open_high = OPEN_RANGE * size
    bounds = Range(max(int(low or 1), 1), _finite(high, open_high))
    return SizePlace(leaf, dim, label, scale, shift), bounds, size


def _finite(high: Any, otherwise: int) -> int:
    """The end of a range; `otherwise` where the range is open."""
    # torch.export marks an open end by a symbol or by a huge number.
    try:
        return int(high) if high is not None and high < 2**31 else otherwise
    except (TypeError, OverflowError):
        return otherwise


def shapes_of(texts: Sequence[str]) -> dict[str, dict[int, Any]]:
    """`dynamic_shapes` of the command line: "x:0", "x:0=batch" or "x:0=batch:1-256".

    Raises:
        UsageError: a text is written otherwise.
    """
    shapes: dict[str, dict[int, Any]] = {}
    for text in texts:
        match = _DYNAMIC.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--dynamic {text} does not name an input and a dimension",
                remedy="write for example x:0, x:0=batch or x:0=batch:1-256",
            )
        name, dim = match["input"], int(match["dim"])
        size = match["size"] or f"{name}_{dim}"
        low, high = match["low"], match["high"]
        if high and int(low) >= int(high):
            raise UsageError(
                f"--dynamic {text}: the range is empty", remedy="give a smaller and a larger number"
            )
        ends = {"min": int(low), "max": int(high)} if high else {}
        shapes.setdefault(name, {})[dim] = Dim(size, **ends)
    return shapes
