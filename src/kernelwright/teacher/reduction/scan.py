"""Candidates of the scan family: one cumulative operator, what comes before and after it fused.

A program owns rows and walks them block by block: each block is scanned as a tree, and what came
before it is carried along.
"""

from dataclasses import dataclass
from functools import partial

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import TensorType
from kernelwright.ops.rules import dim_index, is_float
from kernelwright.programs.program import Program
from kernelwright.teacher.contraction.schedules import power_of_two
from kernelwright.teacher.reduction.accumulators import MULTIPLY
from kernelwright.teacher.text.dtypes import triton_dtype
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import memory_order, parts, times
from kernelwright.teacher.tile.program import (
    TileChoice,
    TileProgram,
    out_buffers,
    the_only,
    tile_axes,
)
from kernelwright.teacher.ways import Way, is_writable

_ADD = """@triton.jit
def add(a, b):
    return a + b"""
_LOG_ADD_EXP = """@triton.jit
def log_add_exp(a, b):
    # The larger one goes first, so that nothing overflows; equal infinities differ by nothing.
    larger, apart = tl.maximum(a, b), tl.where(a == b, 0.0, tl.abs(a - b))
    return larger + libdevice.log1p(tl.exp(-apart))"""
_LATER = """@triton.jit
def {name}(a, a_at, b, b_at):
    # The later one of equals, and NaN before everything, as PyTorch has it.
    takes_b = (b {sign} a) | (b != b)
    return tl.where(takes_b, b, a), tl.where(takes_b, b_at, a_at)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """A scan operator: its combine function, as kernel text, and the start of a row."""

    name: str
    """The name of the function that combines two neighbouring stretches."""
    combine: str
    """The text of the combine function."""
    neutral: str
    """The start of a row: "lowest" and "highest" stand for the dtype's."""
    has_index: bool = False


SCANS = {
    "cumsum": Scan(name="add", combine=_ADD, neutral="0"),
    "cumprod": Scan(name="multiply", combine=MULTIPLY, neutral="1"),
    "logcumsumexp": Scan(name="log_add_exp", combine=_LOG_ADD_EXP, neutral="lowest"),
    "cummax": Scan(
        name="later_max",
        combine=_LATER.format(name="later_max", sign=">="),
        neutral="lowest",
        has_index=True,
    ),
    "cummin": Scan(
        name="later_min",
        combine=_LATER.format(name="later_min", sign="<="),
        neutral="highest",
        has_index=True,
    ),
}
_BOUNDS = {
    "int64": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1),
    "int16": (-(2**15), 2**15 - 1), "int8": (-128, 127), "uint8": (0, 255), "bool": (0, 1),
}  # fmt: skip
_NARROW = ("int16", "int8", "uint8", "bool")

_BEST = ((2048, 2048, 4), (1024, 2048, 4), (512, 2048, 4), (2048, 4096, 8), (256, 1024, 4))
_TILES = (
    *_BEST,
    *(
        (columns, columns * rows, warps)
        for columns in (128, 256, 512, 1024, 2048, 4096)
        for rows in (1, 4, 16)
        for warps in (2, 4, 8)
        # At least four elements a thread, or warps would have too little work.
        if columns * rows <= 4096 and columns * rows >= 128 * warps
    ),
)
"""The most columns of a block, elements of a tile, num_warps; the first five are tried first."""


ScanTile = tuple[int, int, int]
"""Rows and columns of the tile that a program scans at a time, and its warps."""


def classify(program: Program) -> bool:
    """Whether the program has one scan and everything around the scan has kernel text."""
    return is_writable(lambda: _Written(program))


def ways(program: Program, precision: str) -> list[Way]:  # noqa: ARG001
    """Every way to write the program, best first."""
    scan = _Written(program)
    tiles = dict.fromkeys(scan.tile(*sides) for sides in _TILES)  # short rows make tiles equal
    return [Way("scan", partial(scan.candidate, tile)) for tile in tiles]


class _Written(TileProgram):
    """The kernel of a program with one scan.

    Its axes: "n" along the scan; "m" rows of the tile, neighbours in memory; "b" what is left, a
    program each.
    """

    def __init__(self, program: Program) -> None:
        """Reads the program.

        Raises:
            NotWritable: the program has no scan or several, or a call around the scan has no
                kernel text.
        """
        self.program = program
        self.call = the_only(program, lambda call: call.op in SCANS, "scans")
        self.scan = SCANS[self.call.op]
        self.source = self.call.arg("input").name
        result_type = self.call.types[0]
        # A scan of one element copies it, and the tile would have no axis "n".
        if (
            not result_type.rank
            or result_type.shape[dim_index(self.call.arg("dim"), result_type.rank)] == 1
        ):
            raise NotWritable("a scan of single elements")
        members = self._members(result_type)
        self.index, self.view, self.lengths = tile_axes(self.texts, self.call.outputs[0], members)
        self.block = self._block()
        self.buffers = out_buffers(self.block, program.outputs)

    def _members(self, result_type: TensorType) -> dict[str, tuple[int, ...]]:
        """Axis of the kernel -> the dimensions of the scan's result that walk the axis."""
        along = dim_index(self.call.arg("dim"), result_type.rank)
        # Rows of a tile should be neighbours in memory, so the axes come in the order of memory.
        order = memory_order(tuple(range(result_type.rank)), result_type.layout)
        before, behind = order[: order.index(along)], order[order.index(along) + 1 :]
        # If axes follow the scanned one, neighbours in memory belong to different rows, and these
        # rows form a tile. Else neighbours belong to one row, and any rows form a tile.
        if behind:
            return {"b": before, "m": behind, "n": (along,)}
        return {"m": before, "n": (along,)}

    def _block(self) -> TileBody:
        """The lines of a block, from loads to stores."""
        body = self.body(self.view)
        index = self.index
        text = body.value(self.source, index)
        kind = triton_dtype(self.call.types[0].dtype)
        # PyTorch scans in the dtype of the result: bool and small integers become int64.
        if self.program.type_of(self.source).dtype != self.call.types[0].dtype:
            text = f"{text}.to({kind})"
        # Triton cannot read one column of a tile: a sum over a mask of the last column does it.
        body.lines.append("is_last = tl.arange(0, BLOCK_N)[None, :] == BLOCK_N - 1")
        body.lines.append(f"given = tl.broadcast_to({text}, (BLOCK_M, BLOCK_N))")
        body.lines += self._scanned()
        # Only cummax and cummin have a second result, the positions.
        for name, variable in zip(self.call.outputs, ("scanned", "scanned_at"), strict=False):
            body.place(name, index, variable)
        body.follow(self.after())
        for name in dict.fromkeys(self.program.outputs):
            if name not in body.path:
                if body.shape(name) != self.call.types[0].shape:
                    raise NotWritable(f"output {name} has another shape than the scan")
                # An output beside the scan is computed element by element in the same tile.
                body.pull(name, index)
        return body

    def _scanned(self) -> list[str]:
        """Lines that scan the block, add the carry, and keep the last column as the next carry."""
        dtype = self.call.types[0].dtype
        # A sum of what is narrower than 32 bits has 32.
        kept = f".to({triton_dtype(dtype)})" if dtype in _NARROW else ""
        combine = self.scan.name
        if not self.scan.has_index:
            # Columns beyond the row exist in the last block only, whose carry nobody reads.
            return [
                f"scanned = tl.associative_scan(given, 1, {combine})",
                f"scanned = {combine}(carry[:, None], scanned)",
                f"carry = tl.sum(tl.where(is_last, scanned, 0), 1){kept}",
            ]
        return [
            "places = tl.broadcast_to(offs_n[None, :], (BLOCK_M, BLOCK_N)).to(tl.int64)",
            f"scanned, scanned_at = tl.associative_scan((given, places), 1, {combine})",
            "scanned, scanned_at = "
            f"{combine}(carry[:, None], carry_at[:, None], scanned, scanned_at)",
            f"carry = tl.sum(tl.where(is_last, scanned, 0), 1){kept}",
            "carry_at = tl.sum(tl.where(is_last, scanned_at, 0), 1)",
        ]

    def tile(self, columns: int, elements: int, num_warps: int) -> ScanTile:
        """A tile of at most so many columns and elements."""
        # A tile beyond the row would compute on padding.
        columns = min(columns, power_of_two(self.lengths["n"]))
        rows = min(max(1, elements // columns), power_of_two(self.lengths.get("m", 1)))
        return rows, columns, num_warps

    def candidate(self, tile: ScanTile) -> Candidate:
        """The candidate: one kernel in this tile, and its wrapper."""
        choice = TileChoice(
            tiles=dict(zip(("BLOCK_M", "BLOCK_N", "num_warps"), tile, strict=True)),
            why="rows are read once: blocks scanned as trees, their ends carried along",
        )
        rows = f"triton.cdiv({self.view['m'].bound}, BLOCK_M)" if "m" in self.view else "1"
        blocks = f"{self.texts.symbol(self._batches, 'B')} * " if "b" in self.view else ""
        grid = f"({blocks}{rows},)"
        scan_kernel = self.kernel(choice, "scan", self.program.calls, self._lines(), grid)
        return self.assembled([scan_kernel], self.buffers, extra=self.scan.combine)

    @property
    def _batches(self) -> str:
        return times(*(term.size for dim in self.index for term in dim if term.axis == "b"))

    def _lines(self) -> list[str]:
        names = dict.fromkeys(self.program.outputs)
        stores = [self.block.store(f"{name}_ptr", name) for name in names]
        inner = [
            "offs_n = start + tl.arange(0, BLOCK_N)",
            *parts(self.block.view, ["n"]),
            *self.block.lines,
            *stores,
        ]
        return [
            *self._place(),
            *parts(self.block.view, ["b", "m"]),
            *self._carry(),
            f"for start in range(0, {self.view['n'].bound}, BLOCK_N):",
            *(f"    {line}" for line in inner),
        ]

    def _place(self) -> list[str]:
        """Lines that compute which rows the program owns."""
        pid = "tl.program_id(0)" + (".to(tl.int64)" if self.is_wide else "")
        if "m" not in self.view:
            return [f"pid_b = {pid}"] if "b" in self.view else []
        lines = []
        if "b" in self.view:
            lines = [
                f"pid, num_m = {pid}, tl.cdiv({self.view['m'].bound}, BLOCK_M)",
                "pid_b = pid // num_m",
            ]
            pid = "pid % num_m"
        return [*lines, f"offs_m = {pid} * BLOCK_M + tl.arange(0, BLOCK_M)"]

    def _carry(self) -> list[str]:
        """Lines before the loop that set the carry to the neutral element."""
        dtype = self.call.types[0].dtype
        start = self.scan.neutral
        if start in ("lowest", "highest"):
            sign = "-" if start == "lowest" else ""
            start = f'float("{sign}inf")'
            if not is_float(dtype):  # integers have no infinity
                start = str(_BOUNDS[dtype][self.scan.neutral == "highest"])
        lines = [f"carry = tl.full((BLOCK_M,), {start}, {triton_dtype(dtype)})"]
        if self.scan.has_index:
            lines.append("carry_at = tl.zeros((BLOCK_M,), tl.int64)")
        return lines
