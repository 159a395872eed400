"""Parts that kernels of sums of products share: schedules, which tile a program owns, plans."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.ops.operator import DTYPE_BYTES, TensorType
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import AxisText, Index, View, times
from kernelwright.teacher.tile.program import TileChoice, TileProgram

ROUNDED = "tf32_rounded"
"""TF32 with factors rounded to it, as libraries do; tensor cores alone cut the last bits off."""
# TF32 keeps 10 of 23 mantissa bits. 0x1000 is half of the last kept bit, and -0x2000 clears the 13
# bits behind that bit.
ROUND_TO_TF32 = """@triton.jit
def round_to_tf32(x):
    # Half a unit of the last place that TF32 keeps, then the cut that tensor cores make anyway.
    bits = (x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
    return tl.where(tl.abs(x) < float("inf"), bits.to(tl.float32, bitcast=True), x)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProductSchedule:
    """The choices of one kernel of a sum of products: tile, warps, stages, walk and precision."""

    block_m: int
    block_n: int
    block_k: int
    """0 where no product of tiles is taken."""
    num_warps: int
    num_stages: int = 3
    group_m: int = 1
    """Rows of tiles walked together; 1 walks the tiles column by column."""
    split_k: int = 1
    programs: int = 0
    """The number of programs that walk all tiles in turn; 0: a program for each tile."""
    precision: str = "ieee"
    """The precision of a product of tiles: a `tl.dot` mode, or ROUNDED."""
    order: str = ""
    """The order of the loop, where the product's form has a choice."""
    why: str = ""

    @property
    def choice(self) -> TileChoice:
        """The choices that the plan shows and the launch passes."""
        tiles = {"BLOCK_M": self.block_m, "BLOCK_N": self.block_n}
        if self.block_k:
            tiles["BLOCK_K"] = self.block_k
        if self.group_m > 1:
            tiles["GROUP_M"] = self.group_m
        if self.split_k > 1:
            tiles["SPLIT_K"] = self.split_k
        if self.programs:
            tiles["NUM_PROGRAMS"] = self.programs
        tiles |= {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return TileChoice(tiles=tiles, why=self.why, precision=self.precision)


Loads = tuple[int, bool]
"""For a factor's tile: how many loads make the tile, and whether the tile is the loaded values
themselves."""


@dataclass(frozen=True, kw_only=True)
class Product(TileProgram, ABC):
    """A program with one sum of products: out[b, m, n], a sum over an axis "k".

    A kernel's program owns a tile of rows "m" and columns "n" of one of the independent products
    "b", if there are any.
    """

    program: Program
    call: Call
    index: Index
    """Index of the product itself, over "b", "m" and "n"."""
    sizes: dict[str, str]
    """Symbol -> the wrapper's expression for it, in an order that can be executed."""
    lengths: dict[str, int]
    """Axis -> its length at the program's own shapes; the axes the product has."""
    batch_size: str = "B"
    """Symbol of how many independent products there are."""
    batch_position: str = "pid_b"
    """Variable of which of them a program works on."""

    constants: dict[str, str] = field(default_factory=dict)
    """Sizes that kernels take as `tl.constexpr` -> the wrapper's text of them."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """Dtype of the factors."""

    @abstractmethod
    def loop(self, schedule: ProductSchedule) -> str:
        """The plan's name for the loop of `accumulate`."""

    @abstractmethod
    def accumulate(self, schedule: ProductSchedule) -> list[str]:
        """Lines that leave the tile of the sum, in fp32, in `acc`."""

    @abstractmethod
    def begin(self, body: TileBody) -> None:
        """Place `acc`, with the call's own bias, on the body's path."""

    def place(self, body: TileBody, text: str) -> None:
        """Put the call's result on the body's path.

        Args:
            text: expression for the result over `acc`, or "acc" itself.
        """
        name = self.call.outputs[0]
        if text != "acc":
            body.lines.append(f"{name} = {text}")
        body.place(name, self.index, "acc" if text == "acc" else name)

    @property
    def out(self) -> TensorType:
        """Type of the call's result."""
        return self.call.types[0]

    @property
    def numel(self) -> str:
        """Text of the number of elements of the result."""
        axes = {"b": self.batch_size, "m": "M", "n": "N"}
        return times(*(symbol for axis, symbol in axes.items() if axis in self.lengths))

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of a factor."""
        return DTYPE_BYTES[self.dtype]

    @cached_property
    def texts(self) -> ValueSizes:
        """Sizes of all values, the product's own by its symbols."""
        return ValueSizes(self.program, self.sizes)

    def view(self) -> View:
        """Axes of an output tile."""
        view = {
            "m": AxisText("offs_m", "[:, None]", "M"),
            "n": AxisText("offs_n", "[None, :]", "N"),
        }
        return view | ({"b": AxisText(self.batch_position)} if "b" in self.lengths else {})

    def position(self, schedule: ProductSchedule) -> list[str]:
        """Lines that compute the program's tile: offs_m, offs_n and the batch position."""
        lines = [
            f"pid = {'tile' if schedule.programs else 'tl.program_id(0)'}",
            "num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)",
        ]
        if "b" in self.lengths:
            lines += [
                self.wide(self.batch_position, "pid // (num_m * num_n)"),
                "pid = pid % (num_m * num_n)",
            ]
        # The pid walks down a column of tiles: neighbours share a tile of the right factor.
        if schedule.group_m > 1:
            lines += [
                "# Walk GROUP_M rows of tiles together: neighbours share operands in L2.",
                "first_m = pid // (GROUP_M * num_n) * GROUP_M",
                "group_rows = tl.minimum(num_m - first_m, GROUP_M)",
                "pid_m = first_m + pid % (GROUP_M * num_n) % group_rows",
                "pid_n = pid % (GROUP_M * num_n) // group_rows",
            ]
        else:
            lines += ["pid_m = pid % num_m", "pid_n = pid // num_m"]
        return [
            *lines,
            self.wide("offs_m", "pid_m * BLOCK_M + tl.arange(0, BLOCK_M)"),
            self.wide("offs_n", "pid_n * BLOCK_N + tl.arange(0, BLOCK_N)"),
        ]

    def shared_bytes_of(self, schedule: ProductSchedule, lhs: Loads, rhs: Loads) -> int:
        """Bytes of shared memory for the factor tiles of one step of the loop over K, in all
        pipeline stages. Computed tiles are stored once more; modes with "x3" store them in two
        parts."""
        tiles = schedule.block_m * schedule.block_k, schedule.block_k * schedule.block_n
        # What is computed from loads goes back to shared memory for the product, in its parts.
        parts = 2 if "x3" in schedule.precision else 1
        # Loads run ahead, so they have a copy a stage. A computed tile is read at once.
        elements = sum(
            tile * (schedule.num_stages * num_loads + parts * (not is_loaded))
            for tile, (num_loads, is_loaded) in zip(tiles, (lhs, rhs), strict=True)
        )
        return elements * self.element_bytes

    def dot(self, schedule: ProductSchedule, left: str, right: str) -> str:
        """Line that adds the product of two tiles, (m, k) and (k, n), to `acc`."""
        if self.dtype != "float32":  # 16-bit factors have one mode, with sums in fp32
            return f"acc = tl.dot({left}, {right}, acc)"
        # Factors that were rounded in the kernel lose nothing to the cut of mode "tf32".
        mode = "tf32" if schedule.precision == ROUNDED else schedule.precision
        return f'acc = tl.dot({left}, {right}, acc, input_precision="{mode}")'

    def num_tiles(self, module: str = "triton") -> str:
        """Text of the number of tiles, for the wrapper ("triton") or for a kernel ("tl")."""
        batches = f"{self.batch_size} * " if "b" in self.lengths else ""
        return f"{batches}{module}.cdiv(M, BLOCK_M) * {module}.cdiv(N, BLOCK_N)"

    def walked(self, lines: Sequence[str]) -> list[str]:
        """The lines of one tile inside a loop over the tiles that a program owns."""
        return [
            "# As many programs as run at once: each takes every NUM_PROGRAMS-th tile.",
            f"num_tiles = {self.num_tiles('tl')}",
            "for tile in range(tl.program_id(0), num_tiles, NUM_PROGRAMS):",
            *(f"    {line}" for line in lines),
        ]

    def wide(self, name: str, text: str) -> str:
        """Line that assigns positions to a variable, in 64 bits if a tensor needs them."""
        # An offset is a position times a stride: a position in 64 bits makes the offset 64 bits
        # wide.
        return f"{name} = ({text}).to(tl.int64)" if self.is_wide else f"{name} = {text}"

    def epilogue(self, body: TileBody, calls: tuple[Call, ...]) -> None:
        """Write into `body` the product's own bias, then `calls`, on the accumulator `acc`."""
        self.begin(body)
        body.follow(calls)
