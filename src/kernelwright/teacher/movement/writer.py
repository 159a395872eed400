"""Candidates of the movement family: joins, cuts, picks by index, interpolation.

A kernel computes only indices and the pointwise calls around the moves. Each element of an output
pulls the elements that it needs. Outputs of one shape share a kernel.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Self

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import TensorType
from kernelwright.programs.program import Program
from kernelwright.teacher.contraction.schedules import power_of_two
from kernelwright.teacher.movement.pulled import behind
from kernelwright.teacher.movement.rules import RULES
from kernelwright.teacher.source import Buffer, Kernel
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.index import memory_order
from kernelwright.teacher.tile.program import TileChoice, TileProgram, out_buffers, tile_axes
from kernelwright.teacher.tile.views import is_view
from kernelwright.teacher.ways import Way, is_writable

_ELEMENTS = ((1024, 4), (2048, 8), (512, 4), (4096, 8), (256, 2), (2048, 4))
"""The elements of a program's tile, and its num_warps."""
_MAX_COLUMNS = (1024, 256, 64)
"""The most columns of a tile. Shorter rows mean more rows, which suits reads across rows."""


MovedTile = tuple[int, int, int]
"""Elements of the tile that one program makes, num_warps, the most columns."""


def classify(program: Program) -> bool:
    """Whether the program moves elements, and does nothing else but pointwise calls."""
    # Whether a program can be written does not depend on the tile, so one tile is tried.
    return is_writable(lambda: _write(program, (256, 4, 256)))


def ways(program: Program, precision: str) -> list[Way]:  # noqa: ARG001
    """Every way to write the program, best first."""
    return [
        Way(columns, partial(_write, program, (elements, warps, columns)))
        for columns in _MAX_COLUMNS
        for elements, warps in _ELEMENTS
    ]


def _write(program: Program, tile: MovedTile) -> Candidate:
    """The candidate: one kernel for all outputs of one shape and layout.

    Raises:
        NotWritable: a call is neither pointwise nor moves elements, or no call moves elements.
    """
    if not any(call.op in RULES or is_view(call) for call in program.calls):
        raise NotWritable("nothing moves")
    sizes = ValueSizes(program)
    kernels: list[Kernel] = []
    buffers: list[Buffer] = []
    for value_type, names in _groups(program, sizes):
        # Trials add symbols to forks of the sizes; those of the chosen part are kept.
        part = _MovedPart.best(program, sizes, value_type, names)
        sizes = part.texts
        kernels.append(part.written(tile))
        buffers += part.buffers
    return part.assembled(kernels, buffers)


def _groups(program: Program, sizes: ValueSizes) -> Iterator[tuple[TensorType, list[str]]]:
    """Yields (type, names) of outputs that have one layout, and one shape at any input sizes."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name in dict.fromkeys(program.outputs):
        value_type = program.type_of(name)
        groups.setdefault((value_type.shape, sizes.of(name), value_type.layout), []).append(name)
    for names in groups.values():
        yield program.type_of(names[0]), names


class _MovedPart(TileProgram):
    """The kernel of some outputs of one shape, and their buffers."""

    def __init__(
        self,
        program: Program,
        sizes: ValueSizes,
        made: TensorType,
        names: Sequence[str],
        columns: int,
    ) -> None:
        """The part for the outputs `names`.

        Args:
            made: type that all these outputs have in common, but for the dtype.
            columns: number of the last dimensions in memory that form a row of the tile.

        Raises:
            NotWritable: a call is neither pointwise nor moves elements.
        """
        self.program, self.texts, self._names = program, sizes, names
        # Columns are the last dimensions in memory, rows the others.
        order = memory_order(tuple(range(made.rank)), made.layout)
        wide = [at for at in order if made.shape[at] > 1]
        split = len(wide) - columns
        members = {"m": wide[:split], "n": wide[split:]}
        index, self.view, self._lengths = tile_axes(sizes, names[0], members)
        self.pulled = self.body(self.view)
        for name in names:
            self.pulled.pull(name, index)
        self.buffers = out_buffers(self.pulled, tuple(names))

    @classmethod
    def best(
        cls, program: Program, sizes: ValueSizes, made: TensorType, names: Sequence[str]
    ) -> Self:
        """The part whose rows have as many dimensions as possible without a division a column."""
        # Rows take in dimensions as long as no column needs a division: only row numbers do.
        rank = sum(size > 1 for size in made.shape)
        for columns in range(rank, 1, -1):
            part = cls(program, sizes.fork(), made, names, columns)
            if not part.view["n"].parts:
                return part
        # One dimension never needs a division; a scalar has no dimension.
        return cls(program, sizes.fork(), made, names, min(1, rank))

    def written(self, tile: MovedTile) -> Kernel:
        """The kernel in tiles of this many elements."""
        elements, num_warps, max_columns = tile
        choice = TileChoice(
            tiles={**self._blocks(elements, max_columns), "num_warps": num_warps},
            why="every element is read where it is needed: only indices are computed",
        )
        stores = [self.pulled.store(f"{name}_ptr", name) for name in self._names]
        lines = [*self._place(), *self.pulled.slices(), *self.pulled.lines, *stores]
        grid = " * ".join(
            f"triton.cdiv({self.view[axis].bound}, BLOCK_{axis.upper()})" for axis in self.view
        )
        calls = behind(self.program, self._names)
        return self.kernel(choice, "pull", calls, lines, f"({grid or '1'},)", values=self._names)

    def _blocks(self, elements: int, max_columns: int) -> dict[str, int]:
        """The tile's sides: rows as long as possible, then as many rows as fit."""
        if "n" not in self._lengths:
            return {}
        columns = min(power_of_two(self._lengths["n"]), elements, max_columns)
        rows = min(power_of_two(self._lengths.get("m", 1)), elements // columns)
        return (
            {"BLOCK_M": rows, "BLOCK_N": columns} if "m" in self._lengths else {"BLOCK_N": columns}
        )

    def _place(self) -> list[str]:
        """Lines that compute the program's tile: offs_m and offs_n."""
        if not self.view:
            return []
        pid = "tl.program_id(0)" + (".to(tl.int64)" if self.is_wide else "")
        first = {"n": pid}
        lines = []
        if "m" in self.view:
            first = {"m": "pid // num_n", "n": "pid % num_n"}
            lines = [f"pid = {pid}", f"num_n = tl.cdiv({self.view['n'].bound}, BLOCK_N)"]
        for axis, start in first.items():
            block = f"BLOCK_{axis.upper()}"
            lines.append(f"offs_{axis} = {start} * {block} + tl.arange(0, {block})")
        return lines
