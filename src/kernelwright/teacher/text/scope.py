"""Index variables of a kernel, and the offsets and masks they give for each tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from kernelwright.teacher.source import used_in
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.fixed_sizes import ALIGNED
from kernelwright.teacher.text.space import SpaceAxis, StageSpace
from kernelwright.teacher.tile.index import (
    AxisText,
    Term,
    mask,
    offset,
    parts,
    placed,
    stride_size,
    times,
)

MAX_BLOCKS = 65_535
"""CUDA's limit for the y and the z dimension of a grid; x has 2^31 - 1."""


@dataclass(frozen=True, slots=True)
class IndexGroup:
    """One index variable that walks one axis, or several as if they were one."""

    var: str
    axes: tuple[SpaceAxis, ...]
    """Major first."""
    count: str
    """The kernel argument that holds the number of positions."""
    runtime: str
    """The same in the wrapper."""
    is_masked: bool
    """Positions may lie beyond the end; a program's own scalar position never does."""

    def blocks(self, positions: int) -> int:
        """The number of blocks of so many positions, at the program's own sizes."""
        return -(-prod(axis.size for axis in self.axes) // positions)


def group(
    space: StageSpace, names: Sequence[str], merged: str, *, is_masked: bool = True
) -> IndexGroup:
    """A group of axes of a space.

    Args:
        names: names of the axes, major first.
        merged: name of the index variable, unless there is exactly one axis.
        is_masked: whether positions may lie beyond the end.
    """
    axes = tuple(space.axis(name) for name in names)
    runtime = space.runtime(names)
    if len(axes) == 1:
        return IndexGroup(axes[0].index, axes, axes[0].count, runtime, is_masked)
    count = f"n_{merged}" if merged.endswith(("s", "outer")) else f"n_{merged}s"
    return IndexGroup(merged, axes, count, runtime, is_masked)


def launch_order(*blocks: int) -> list[int]:
    """Places of the arguments along x, y and z; one that y and z do not allow comes first.

    Args:
        blocks: number of blocks of each dimension, in the order that is wanted.

    Raises:
        NotWritable: several are too many for y and z.
    """
    order = sorted(range(len(blocks)), key=lambda at: blocks[at] <= MAX_BLOCKS)
    if any(blocks[at] > MAX_BLOCKS for at in order[1:]):
        raise NotWritable("more blocks than a grid has")
    return order


class IndexScope:
    """Texts of offsets and masks of a tile, with a record of the sizes that these texts need."""

    def __init__(self, groups: Sequence[IndexGroup]) -> None:
        """A scope over index variables that together walk every axis of a space once."""
        self.groups = tuple(groups)
        self.sizes: dict[str, str] = {}
        """Size arguments used so far -> their text in the wrapper."""
        self.unaligned: set[str] = set()
        """Those of them that kernels with fixed sizes have as constants: what positions of a tile
        are multiplied with, divided by and held against."""
        self.view: dict[str, AxisText] = {}
        self._terms: dict[str, Term] = {}
        """Axis of the space -> its slice of an index variable."""
        self._known: dict[str, tuple[str, int]] = {}
        """Size argument -> its text in the wrapper, and the size in the program at hand."""
        for one in groups:
            self._add(one)

    def _add(self, group: IndexGroup) -> None:
        counts = [axis.count for axis in group.axes]
        names = {
            " * ".join(counts[i:j]): "_".join(axis.index for axis in group.axes[i:j])
            for i, j in combinations(range(len(counts) + 1), 2)
        }
        bound = group.count if group.is_masked else ""
        self.view[group.var] = AxisText(group.var, bound=bound, size=group.count, names=names)
        self._known |= {axis.count: (axis.runtime, axis.size) for axis in group.axes}
        self._known[group.count] = group.runtime, prod(axis.size for axis in group.axes)
        for i, axis in enumerate(group.axes):
            inner = times("1", *counts[i + 1 :])
            self._terms[axis.name] = Term(group.var, axis.count, axis.size, inner, i == 0)

    def count(self, group: IndexGroup) -> str:
        """The group's size argument, recorded as used."""
        # A size that only a grid uses is not among the unaligned: a constant would help no load,
        # and each of its values would be compiled anew.
        self.sizes[group.count] = group.runtime
        return group.count

    def _use(self, *sizes: str) -> None:
        """Records the arguments of these sizes, products of arguments, as used by a tile."""
        for count in (factor for size in sizes for factor in size.split(" * ")):
            self.sizes[count], size = self._known[count]
            if size % ALIGNED:
                self.unaligned.add(count)

    def offset(self, order: Sequence[str]) -> str:
        """Text of the tile's offset, in elements, in a dense tensor.

        Args:
            order: names of the tensor's axes in memory order, slowest first.
        """
        index = tuple((self._terms[axis],) for axis in order)
        for i, (term, _) in enumerate(placed(index)):
            # The size of the first run multiplies nothing: an argument for it would be unused.
            if i:
                self._use(stride_size(term, self.view))
            if term.inner != "1":
                self._use(term.inner)
            if not term.is_outer:
                self._use(term.size)
        return offset(index, self.view)

    def mask(self, axes: Sequence[str] | frozenset[str]) -> str:
        """Text of the mask of a tile over these axes; "" if all positions exist."""
        met = [g for g in self.groups if g.is_masked and any(a.name in axes for a in g.axes)]
        self._use(*(group.count for group in met))
        return mask([group.var for group in met], self.view)

    def given(
        self, lines: Sequence[str], *, is_fixed: bool, more: Sequence[str] = ()
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """The sizes that a kernel of these lines takes as arguments.

        Args:
            is_fixed: whether sizes that 16 does not divide are constants.
            more: further sizes that the kernel may name.

        Returns:
            (sizes at run time, constants -> their text).
        """
        used = used_in(lines, self.sizes | dict.fromkeys(more, ""))
        known = self.unaligned.intersection(used) if is_fixed else frozenset()
        return (
            tuple(name for name in used if name not in known),
            {name: name for name in used if name in known},
        )

    def indices(self, group: IndexGroup) -> list[str]:
        """Lines that compute the slices of a group's variable that texts so far use."""
        return parts(self.view, [group.var])
