"""Index variables of a kernel, and the offsets and masks they give for each tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kernelwright.teacher.source import used_in
from kernelwright.teacher.text.fixed_sizes import ALIGNED
from kernelwright.teacher.text.space import SpaceAxis, StageSpace


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


def group(
    space: StageSpace, names: Sequence[str], merged: str, *, is_masked: bool = True
) -> IndexGroup:
    """A group of a space's axes; `merged` is its variable where it walks more or less than one."""
    axes = tuple(space.axis(name) for name in names)
    runtime = space.runtime(names)
    if len(axes) == 1:
        return IndexGroup(axes[0].index, axes, axes[0].count, runtime, is_masked)
    count = f"n_{merged}" if merged.endswith(("s", "outer")) else f"n_{merged}s"
    return IndexGroup(merged, axes, count, runtime, is_masked)


class IndexScope:
    """Where the elements of a tile lie; records what the texts it gives rely on."""

    def __init__(self, groups: Sequence[IndexGroup]) -> None:
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
        self.sizes[axis.count] = axis.runtime
        if axis.size % ALIGNED:
            self.unaligned.add(axis.count)
        return axis.count

    def _tile_count(self, group: IndexGroup) -> str:
        if prod(axis.size for axis in group.axes) % ALIGNED:
            self.unaligned.add(group.count)
        return self.count(group)

    def offset(self, order: Sequence[str]) -> str:
        """Offset, in elements, of the tile in a dense tensor whose axes lie in this order."""
        text = ""
        for index, sizes in self._runs(order):
            if not text:
                text = index
            else:
                inner = f"({text})" if " + " in text else text
                text = f"{inner} * {factor(sizes)} + {index}"
        return text or "0"

    def _runs(self, order: Sequence[str]) -> list[tuple[str, str]]:
        """(index, size) of maximal runs of axes that one variable walks in the same order."""
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
        return next(g for g in self.groups if axis in {a.name for a in g.axes})

    def mask(self, axes: Sequence[str] | frozenset[str]) -> str:
        """Which positions of a tile over these axes exist; empty where all do."""
        masked = [
            group
            for group in self.groups
            if group.is_masked and any(axis.name in axes for axis in group.axes)
        ]
        tests = [f"{group.var} < {self._tile_count(group)}" for group in masked]
        return tests[0] if len(tests) == 1 else " & ".join(f"({test})" for test in tests)

    def given(
        self, lines: Sequence[str], *, is_fixed: bool, more: Sequence[str] = ()
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """The sizes that a kernel of these lines takes: (at run time, as constants).

        Args:
            is_fixed: unaligned ones are constants.
            more: sizes that the kernel may name besides.
        """
        used = used_in(lines, self.sizes | dict.fromkeys(more, ""))
        known = self.unaligned.intersection(used) if is_fixed else frozenset()
        return (
            tuple(name for name in used if name not in known),
            {name: name for name in used if name in known},
        )

    def indices(self, group: IndexGroup) -> list[str]:
        """Lines that compute the variables derived from a group's."""
        return [f"{name} = {text}" for name, text in self.derived[group.var].items()]


def factor(text: str) -> str:
    """`text` as a factor: in parentheses where it is a product or sum."""
    return f"({text})" if " " in text else text
