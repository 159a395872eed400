"""Index variables of a kernel, and the offsets and masks they give for each tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kernelwright.teacher.source import used_in
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.fixed_sizes import ALIGNED
from kernelwright.teacher.text.space import SpaceAxis, StageSpace
from kernelwright.teacher.tile.index import all_of, factor

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
        self.derived: dict[str, dict[str, str]] = {group.var: {} for group in groups}
        """Index variable -> variables computed from it, in order of first use."""

    def count(self, group: IndexGroup) -> str:
        """The group's size argument, recorded as used."""
        self.sizes[group.count] = group.runtime
        return group.count

    def axis_count(self, axis: SpaceAxis) -> str:
        """An axis's size argument, recorded as used."""
        self.sizes[axis.count] = axis.runtime
        if axis.size % ALIGNED:
            self.unaligned.add(axis.count)
        return axis.count

    def _tile_count(self, group: IndexGroup) -> str:
        # A size that only a grid uses is not recorded: a constant would help no load, and each of
        # its values would be compiled anew.
        if prod(axis.size for axis in group.axes) % ALIGNED:
            self.unaligned.add(group.count)
        return self.count(group)

    def offset(self, order: Sequence[str]) -> str:
        """Text of the tile's offset, in elements, in a dense tensor.

        Args:
            order: names of the tensor's axes in memory order, slowest first.
        """
        text = ""
        for index, sizes in self._runs(order):
            if not text:
                text = index
            else:
                inner = f"({text})" if " + " in text else text
                text = f"{inner} * {factor(sizes)} + {index}"
        return text or "0"

    def _runs(self, order: Sequence[str]) -> list[tuple[str, str]]:
        """(index text, size text) of each maximal run of axes that one variable walks in order.

        A run needs one division, however many axes it has.
        """
        runs: list[tuple[str, str]] = []
        at = 0
        while at < len(order):
            group = self.group_of(order[at])
            names = [axis.name for axis in group.axes]
            first = last = names.index(order[at])
            at += 1
            while at < len(order) and last + 1 < len(names) and names[last + 1] == order[at]:
                last, at = last + 1, at + 1
            run = group.axes[first : last + 1]
            # The size of the first run multiplies nothing: an argument for it would be unused.
            if len(run) == len(names):
                size = group.count if not runs else self._tile_count(group)
            else:
                size = " * ".join(axis.count for axis in run)
                if runs:
                    for axis in run:
                        self.axis_count(axis)
            runs.append((self._index(group, first, last), size))
        return runs

    def _index(self, group: IndexGroup, first: int, last: int) -> str:
        """Variable of the position along a run of a group's axes, from `first` to `last`."""
        if first == 0 and last == len(group.axes) - 1:
            return group.var
        run, minor = group.axes[first : last + 1], group.axes[last + 1 :]
        text = group.var
        if minor:
            text += f" // {factor(' * '.join(self.axis_count(axis) for axis in minor))}"
        if first:
            text += f" % {factor(' * '.join(self.axis_count(axis) for axis in run))}"
        name = "_".join(axis.index for axis in run)
        self.derived[group.var][name] = text
        return name

    def group_of(self, axis: str) -> IndexGroup:
        """The group whose variable walks an axis."""
        return next(g for g in self.groups if axis in {a.name for a in g.axes})

    def mask(self, axes: Sequence[str] | frozenset[str]) -> str:
        """Text of the mask of a tile over these axes; "" if all positions exist."""
        masked = [
            group
            for group in self.groups
            if group.is_masked and any(axis.name in axes for axis in group.axes)
        ]
        return all_of([f"{group.var} < {self._tile_count(group)}" for group in masked])

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
        return [f"{name} = {text}" for name, text in self.derived[group.var].items()]
