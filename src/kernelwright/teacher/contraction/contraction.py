"""A kernel writer's view of a program with one matrix product: operands, indices, sizes, epilogue.

The product is out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]. Leading dimensions of a
batched lhs that meets a 2-D rhs are rows: they walk the axis "m". Every size has a symbol (M, N,
K, B0 ...) that the kernel takes as an argument and the wrapper reads from a tensor's shape.
"""

from dataclasses import dataclass
from functools import cached_property

from kernelwright.ops.registry import names_with
from kernelwright.ops.rules import broadcast
from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.contraction.factor import Factor, factor_views
from kernelwright.teacher.contraction.parts import Loads, Product, ProductSchedule
from kernelwright.teacher.contraction.triangles import SumSpan, span
from kernelwright.teacher.text.expressions import NotWritable, literal
from kernelwright.teacher.text.value_sizes import measure
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import (
    Index,
    align,
    flat_axis,
    parts,
    times,
)
from kernelwright.teacher.tile.program import the_only
from kernelwright.teacher.tile.views import Side
from kernelwright.teacher.ways import is_writable

CONTRACTIONS = names_with(Trait.MATRIX_PRODUCT)
_TURNS = ("t", "transpose", "permute")
"""Operators after which rows of a matrix may lie along its columns in memory."""


@dataclass(frozen=True, kw_only=True)
class Contraction(Product):
    """A program with one matrix product: out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n].

    A dimension that is missing has no axis: "b" without a batch, "m" or "n" if a factor is a
    vector.
    """

    lhs: Side
    rhs: Side

    @property
    def dtype(self) -> str:
        return self.program.type_of(self.lhs.value).dtype

    @cached_property
    def span(self) -> SumSpan:
        """The steps of the sum that a tile needs."""
        return span(self.program, self.call, self.index, (self.lhs, self.rhs))

    def loop(self, schedule: ProductSchedule) -> str:
        """The plan's name of the loop: "matmul" or "split_k", "_triangular" if triangles cut it."""
        name = "split_k" if schedule.split_k > 1 else "matmul"
        return f"{name}_triangular" if self.span.lines else name

    def begin(self, body: TileBody) -> None:
        """Places the product, with the bias and the scales of the call itself, on the path."""
        call = self.call
        bias = None if call.operator.channel_dim is None else call.arg("bias")
        # PyTorch does not read an operand with beta 0, so its NaN and infinities do not spread.
        if call.has(Trait.ADDS_OPERAND) and call.arg("beta") != 0:
            bias = call.arg("input")
        has_scales = call.has(Trait.ADDS_OPERAND)
        alpha, beta = (literal(call.arg(n)) if has_scales else "1" for n in ("alpha", "beta"))
        scaled = "acc" if alpha == "1" else f"{alpha} * acc"
        if not isinstance(bias, Ref):
            self.place(body, scaled)
            return
        operand = body.value(bias.name, align(self.index, self.program.type_of(bias.name).shape))
        added = operand if beta == "1" else f"{beta} * {operand}"
        self.place(body, f"{scaled} + {added}")

    def factors(self, step: str) -> tuple[Factor, Factor]:
        """The tiles of both factors, the left one first.

        Args:
            step: text of how far the loop moves along "k".

        Raises:
            NotWritable: a factor does not vary along both axes of its tile, or an operator that
                computes a factor has no kernel text.
        """
        lhs, rhs = factor_views("b" in self.lengths)
        return Factor(self, self.lhs, "a", lhs, step), Factor(self, self.rhs, "b", rhs, step)

    @cached_property
    def has_tiles(self) -> bool:
        """Whether both factors are matrices whose tiles can be loaded or computed."""
        # A tile has two axes. A product with a vector has one, so `rows` writes it.
        is_matrix = "m" in self.lengths and "n" in self.lengths
        return is_matrix and is_writable(lambda: self.factors("BLOCK_K"))

    def shared_bytes(self, schedule: ProductSchedule) -> int:
        """Bytes of shared memory for the factor tiles of one step, in all pipeline stages."""
        return self.shared_bytes_of(schedule, *self._loads)

    @cached_property
    def _loads(self) -> tuple[Loads, Loads]:
        # The text of the step changes no number of loads: any step serves here.
        lhs, rhs = self.factors("BLOCK_K")
        return (lhs.num_loads, lhs.is_plain), (rhs.num_loads, rhs.is_plain)

    def accumulate(self, schedule: ProductSchedule) -> list[str]:
        """Lines that leave the tile of the sum, (BLOCK_M, BLOCK_N) in fp32, in `acc`."""
        # A program of split-K takes every SPLIT_K-th block, beginning with its own number.
        first = f"{self.span.begin} + " if self.span.begin != "0" else ""
        first += "tl.program_id(1) * BLOCK_K + " if schedule.split_k > 1 else ""
        step = "BLOCK_K * SPLIT_K" if schedule.split_k > 1 else "BLOCK_K"
        lines = [
            *self.position(schedule),
            *self.span.lines,
            self.wide("offs_k", f"{first}tl.arange(0, BLOCK_K)"),
            "# Rows and columns past the end wrap around; the stores leave them out.",
            "rows = offs_m % M",
            "cols = offs_n % N",
        ]
        # Rows and columns that wrap around read memory that exists: loads are masked along K alone.
        factors = self.factors(step)
        # Plain factors walk by pointers. The positions `ks` serve computed factors alone.
        loop = [line for one in factors for line in one.load]
        needs_ks = any("ks" in line for line in loop)
        tile_axes = ("b", "m", "n")
        return [
            *lines,
            # Both factors share the slices of "b", so equal lines are written once.
            *dict.fromkeys(line for one in factors for line in parts(one.view, tile_axes)),
            *(line for one in factors for line in one.start),
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            f"for k in range(0, {self.span.length}, {step}):",
            *(["    ks = k + offs_k"] if needs_ks else []),
            *dict.fromkeys(f"    {line}" for one in factors for line in parts(one.view, "k")),
            *(f"    {line}" for line in loop),
            f"    {self.dot(schedule, *(one.text for one in factors))}",
            *(f"    {line}" for one in factors for line in one.advance),
        ]


def find(program: Program) -> Contraction:
    """The program's one matrix product, with the indices of its factors and of its result.

    Raises:
        NotWritable: the program has no matrix product or several, an output does not depend on the
            product, or the factors are neither fp32, fp16 nor bf16.
    """
    call = the_only(program, lambda call: call.op in CONTRACTIONS, "matrix products")
    _check_outputs(program, call)
    lhs, rhs = factors(call)
    a, b = program.type_of(lhs), program.type_of(rhs)
    # PyTorch refuses factors of two dtypes, so the left factor speaks for both.
    if a.dtype not in ("float32", "float16", "bfloat16"):
        raise NotWritable(f"a product of {a.dtype}")
    is_linear = call.operator.channel_dim is not None
    # The weight of `linear` is (n, k). Its index is reversed, and no memory is transposed.
    rhs_shape = b.shape[::-1] if is_linear else b.shape
    batch = broadcast(a.shape[:-2], rhs_shape[:-2])
    # A batched matrix times one matrix is one tall matrix: its leading dimensions are rows, and all
    # rows share the loads of the right factor.
    batch = () if len(rhs_shape) <= 2 else batch
    axes = _Axes(batch, a.shape, rhs_shape)
    rhs_index = axes.rhs[::-1] if is_linear else axes.rhs
    sides = Side(lhs, axes.lhs), Side(rhs, rhs_index)
    # A size that is a product of other sizes stands in no shape of a tensor.
    sizes = {
        symbol: axes.products.get(symbol) or measure(program, symbol, sides)
        for symbol in axes.symbols
    }
    return Contraction(
        program=program,
        call=call,
        index=axes.out,
        sizes=sizes,
        lengths=axes.lengths,
        constants={symbol: symbol for symbol in _strides(program, call) if symbol in sizes},
        lhs=sides[0],
        rhs=sides[1],
    )


def _strides(program: Program, product: Call) -> list[str]:
    """Symbols of the sizes that are distances between rows in memory. Kernels have these as
    constants: only then does Triton know how rows are aligned that 16 does not divide, and loads
    many elements at once.

    The number of rows M stays an argument, since batches and sequences vary. After a transpose, M
    can be the distance between rows.
    """
    before = program.calls[: program.calls.index(product)]
    is_turned = any(call.op in _TURNS for call in before)
    return [*(["M"] if is_turned else []), "N", "K"]


def _check_outputs(program: Program, product: Call) -> None:
    """Raise NotWritable if an output does not depend on the product: no schedule stores it.

    Most refusals are found here, before any schedule is estimated or written.
    """
    # The epilogue is stored tile by tile of the product. A value that does not come from the
    # product has no tile.
    dependent = set(product.outputs)
    for call in program.calls[program.calls.index(product) + 1 :]:
        if not dependent.isdisjoint(call.refs()):
            dependent.update(call.outputs)
    for name in program.outputs:
        if name not in dependent:
            raise NotWritable(f"output {name} does not come from the product")


def factors(call: Call) -> tuple[str, str]:
    """Names of the two factors, the left one first."""
    first, second = (call.arg(factor.name).name for factor in call.operator.factors)
    return first, second


class _Axes:
    """Symbols and indices of a product of these shapes.

    Shapes: batch (*b), lhs (*b, m, k) or (*rows, k), rhs (*b, k, n) or (k,).
    """

    def __init__(self, batch: tuple[int, ...], lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
        # Without a batch every leading dimension of the left factor is a row.
        rows = lhs[:-1] if not batch else lhs[-2:-1]
        self.lengths: dict[str, int] = {}
        self.symbols: list[str] = []
        self.products: dict[str, str] = {}
        """Symbols that are products of others: M = D0 * D1."""
        b = self._axis("b", "B", batch)
        m = self._axis("m", "M", rows)
        # A vector on the right leaves a result without columns.
        n = self._axis("n", "N", rhs[-1:] if len(rhs) > 1 else ())
        k = self._axis("k", "K", lhs[-1:])
        self.out = b + m + n
        self.lhs = _broadcast_batch(b, batch, lhs[:-2]) + m + k if batch else m + k
        self.rhs = _broadcast_batch(b, batch, rhs[:-2]) + k + n

    def _axis(self, axis: str, symbol: str, dims: tuple[int, ...]) -> Index:
        if not dims:
            return ()
        names = [symbol] if len(dims) == 1 else [f"{symbol}{i}" for i in range(len(dims))]
        # A product follows its factors, because the wrapper sets sizes in this order.
        self.symbols += [*names, symbol] if len(dims) > 1 else names
        self.lengths[axis] = 1
        for size in dims:
            self.lengths[axis] *= size
        if len(dims) > 1:
            self.products[symbol] = times(*names)
        return flat_axis(axis, names, dims)


def _broadcast_batch(index: Index, batch: tuple[int, ...], dims: tuple[int, ...]) -> Index:
    """Index of one factor's batch dimensions; a dimension that broadcasts has an empty index.

    Args:
        index: index of the result's batch dimensions.
        batch: sizes of the result's batch dimensions.
        dims: sizes of the factor's batch dimensions, which may be fewer.
    """
    # Broadcasting aligns dimensions at the end.
    tail = index[len(index) - len(dims) :]
    wide = batch[len(batch) - len(dims) :]
    # A dimension broadcasts if the factor has one element and the result has more.
    return tuple(
        () if size == 1 != full else dim for dim, size, full in zip(tail, dims, wide, strict=True)
    )
