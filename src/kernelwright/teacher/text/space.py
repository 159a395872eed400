"""The iteration space of a stage: axes collapsed as far as all tensors allow, named and sized."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from kernelwright.teacher.nodes.graph import KernelStage, Tensor

Run = tuple[int, ...]
"""Axes of the graph that lie side by side wherever they occur."""


@dataclass(frozen=True, slots=True)
class SpaceAxis:
    """One axis of an iteration space: one or several neighbouring axes of the graph."""

    name: str
    """Plural, of the size: "rows" is counted by `n_rows`."""
    size: int
    """In the program at hand; kernels read it at run time."""
    runtime: str
    """Text of the size in the wrapper, from the inputs' shapes."""

    @property
    def count(self) -> str:
        """The kernel argument that holds the size."""
        return f"n_{self.name}"

    @property
    def index(self) -> str:
        """A position along it."""
        return _SINGULAR.get(self.name, self.name.removesuffix("s"))


_SINGULAR = {"batch": "sample"}
_NAMES = {
    1: ("elements",),
    2: ("rows", "cols"),
    3: ("planes", "rows", "cols"),
    4: ("blocks", "planes", "rows", "cols"),
}


@dataclass(frozen=True, slots=True)
class StageSpace:
    """The collapsed axes of a stage, and the order of each tensor's axes in memory."""

    axes: tuple[SpaceAxis, ...]
    """In memory order of the leading tensor."""
    reduced: frozenset[str]
    orders: dict[str, tuple[str, ...]]
    """Tensor -> names of its axes in memory order."""
    members: dict[str, tuple[int, ...]]
    """Axis name -> the graph's axes it is made of."""
    stage: KernelStage

    def axis(self, name: str) -> SpaceAxis:
        """The axis of this name."""
        return next(axis for axis in self.axes if axis.name == name)

    def runtime(self, names: Sequence[str]) -> str:
        """Wrapper text of the product of the sizes of some axes."""
        return size_text(self.stage, [a for name in names for a in self.members[name]])

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the axes that no reduction runs over."""
        return tuple(axis.name for axis in self.axes if axis.name not in self.reduced)


def collapse(stage: KernelStage) -> StageSpace:
    """The iteration space of a stage, with axes merged as far as possible.

    Two axes merge if they are neighbours in every tensor that has either of them, and if both are
    reduced or both are kept. Fewer axes mean fewer divisions of positions.
    """
    leading = leading_tensor(stage)
    tensors = (*stage.inputs, *stage.outputs)
    rows: dict[str, list[Run]] = {t.name: [(axis,) for axis in t.order] for t in tensors}
    order: list[Run] = [(axis,) for axis in walk_order(stage)]
    # The walk order counts like a tensor: only neighbours in the walk can become one axis.
    everything = [order, *rows.values()]
    merged = True
    while merged:
        merged = False
        for first, second in pairwise(order):
            same_side = (first[0] in stage.reduced) == (second[0] in stage.reduced)
            if same_side and all(_adjoin(row, first, second) for row in everything):
                for row in everything:
                    _join(row, first, second)
                merged = True
                break
    names = dict(zip(order, _names_of(stage, order, leading), strict=True))
    axes = tuple(
        SpaceAxis(names[group], prod(map(stage.graph.axes.size, group)), size_text(stage, group))
        for group in order
    )
    return StageSpace(
        axes,
        frozenset(names[group] for group in order if group[0] in stage.reduced),
        {name: tuple(names[group] for group in row) for name, row in rows.items()},
        {names[group]: group for group in order},
        stage,
    )


def leading_tensor(stage: KernelStage) -> Tensor:
    """The tensor whose memory order the kernels walk: the largest input of a reduction, the
    largest output otherwise."""
    tensors = stage.inputs if stage.reduced else stage.outputs
    return max(tensors, key=lambda t: t.type.numel)


def walk_order(stage: KernelStage) -> list[int]:
    """All axes of a stage, in the order in which the kernels walk them."""
    order = list(leading_tensor(stage).order)
    # Axes that the leading tensor lacks go to the front: its innermost axis stays the innermost.
    for tensor in (*stage.inputs, *stage.outputs):
        order = [axis for axis in tensor.order if axis not in order] + order
    return order


def _adjoin(row: list[Run], first: Run, second: Run) -> bool:
    """Whether a tensor's axes have neither of two runs, or both side by side in this order."""
    if (first in row) != (second in row):
        return False
    return first not in row or row.index(second) == row.index(first) + 1


def _join(row: list[Run], first: Run, second: Run) -> None:
    """Replaces two neighbouring runs of a tensor's axes by one, if the tensor has them."""
    if first in row:
        at = row.index(first)
        row[at : at + 2] = [(*first, *second)]


def _names_of(
    stage: KernelStage, order: Sequence[tuple[int, ...]], leading: Tensor
) -> Sequence[str]:
    """Names of the collapsed axes: those of an image's dimensions if they fit, else by position."""
    if len(leading.dims) >= 4 and len(order) > 1:
        named = [_image_name(stage, frozenset(group), leading) for group in order]
        if "" not in named and len(set(named)) == len(named):
            return named
    return _NAMES.get(len(order)) or tuple(f"dim{i}" for i in range(len(order)))


def _image_name(stage: KernelStage, group: frozenset[int], image: Tensor) -> str:
    """ "batch", "groups", "channels" or "pixels" if all axes of the group are part of it; or ""."""
    groups = {a for axis in stage.graph.constants for a in stage.graph.axes.resolve((axis,))}
    space = {axis for dim in image.dims[2:] for axis in dim}
    parts = {"batch": image.dims[0], "groups": groups, "channels": image.dims[1], "pixels": space}
    return next((name for name, part in parts.items() if group <= set(part)), "")


def size_text(stage: KernelStage, axes: Sequence[int]) -> str:
    """Wrapper text of the product of the sizes of some of the graph's axes.

    The text reads the first input whose dimensions are just these axes. If there is none, the text
    is a product over single axes.
    """
    for tensor in _given(stage):
        dims = [i for i, dim in enumerate(tensor.dims) if dim and set(dim) <= set(axes)]
        if axes and {axis for i in dims for axis in tensor.dims[i]} == set(axes):
            if len(dims) > 1 and len(dims) == len(tensor.dims) and not tensor.is_pulled:
                return f"{tensor.name}.numel()"
            if len(dims) == 1 and tensor.is_pulled:
                return tensor.sizes[dims[0]]
            return " * ".join(map(tensor.size, dims))
    known = axis_texts(stage)
    return product([known[axis] for axis in axes])


def product(factors: Sequence[str]) -> str:
    """Product of texts, each put in parentheses where it needs them."""
    if len(factors) == 1:
        return factors[0]
    return " * ".join(f"({f})" if "//" in f else f for f in factors) or "1"


def _given(stage: KernelStage) -> list[Tensor]:
    """The stage's inputs in order, those in memory first."""
    return sorted(stage.inputs, key=lambda t: t.is_pulled)


def axis_texts(stage: KernelStage) -> dict[int, str]:
    """Axis of the graph -> wrapper text of its size.

    The text is a dimension of an input, a number that an attribute fixes, or a dimension divided by
    its other parts.
    """
    size, resolve = stage.graph.axes.size, stage.graph.axes.resolve
    texts = {a: str(n) for axis, n in stage.graph.constants.items() for a in resolve((axis,))}
    named = [(tensor.size(i), dim) for tensor in _given(stage) for i, dim in enumerate(tensor.dims)]
    for text, dim in named:
        if len(dim) == 1:
            texts.setdefault(dim[0], text)
    for text, dim in named:
        # The inner parts of a split keep their size, the outermost takes what is left.
        missing = [axis for axis in dim if axis not in texts]
        texts |= {axis: str(size(axis)) for axis in missing[1:]}
        if missing:
            rest = product([texts[axis] for axis in dim if axis != missing[0]])
            texts[missing[0]] = f"{text} // {f'({rest})' if ' ' in rest else rest}"
    for tensor in stage.outputs:
        for axis in tensor.order:
            texts.setdefault(axis, str(size(axis)))
    return texts


def shape_texts(stage: KernelStage, tensor: Tensor) -> tuple[str, ...]:
    """Wrapper texts of a tensor's sizes, read from one input if it has the same dimensions."""
    for candidate in _given(stage):
        if candidate.dims == tensor.dims and not candidate.is_pulled:
            return tuple(map(candidate.size, range(len(candidate.dims))))
    return tuple(size_text(stage, dim) for dim in tensor.dims)
