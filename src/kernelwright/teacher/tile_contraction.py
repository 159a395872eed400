"""What a program with one matrix product is to a kernel writer: operands, indices, sizes, epilogue.

The product is out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]. Leading dimensions of a
batched lhs that meets a 2-D rhs are rows: they walk the axis "m". Every size has a symbol (M, N,
K, B0 ...) that the kernel takes as an argument and the wrapper reads from a tensor's shape.
"""

from dataclasses import dataclass

from kernelwright.ops.operator import Kind
from kernelwright.ops.rules import broadcast
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.expressions import NotWritable, literal
from kernelwright.teacher.tile_body import TileBody
from kernelwright.teacher.tile_index import (
    AxisText,
    Index,
    View,
    align,
    axes_of,
    flat_axis,
    memory_order,
    offset,
    parts,
    placed,
    times,
)
from kernelwright.teacher.tile_parts import Product, Schedule, dot, wide
from kernelwright.teacher.tile_views import Side, measure, only_views, sources

CONTRACTIONS = ("linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm")


@dataclass(frozen=True, kw_only=True)
class Contraction(Product):
    """A program with one matrix product."""

    lhs: Side
    rhs: Side

    @property
    def dtype(self) -> str:
        return self.program.type_of(self.lhs.value).dtype

    def loop(self, schedule: Schedule) -> str:
        return "split_k" if schedule.split_k > 1 else "matmul"

    def begin(self, body: TileBody) -> None:
        call = self.call
        bias = call.arg("bias") if call.op == "linear" else None
        if call.op in ("addmm", "baddbmm"):
            bias = call.arg("input")
        if not isinstance(bias, Ref):
            self.place(body, "acc")
            return
        operand = body.value(bias.name, align(self.index, self.program.type_of(bias.name).shape))
        alpha, beta = ("1", "1") if call.op == "linear" else _scales(call)
        scaled = "acc" if alpha == "1" else f"{alpha} * acc"
        added = operand if beta == "1" else f"{beta} * {operand}"
        self.place(body, f"{scaled} + {added}")

    def accumulate(self, schedule: Schedule) -> list[str]:
        first = "tl.program_id(1) * BLOCK_K + " if schedule.split_k > 1 else ""
        step = "BLOCK_K * SPLIT_K" if schedule.split_k > 1 else "BLOCK_K"
        lines = [
            *self.position(schedule),
            wide(self, "offs_k", f"{first}tl.arange(0, BLOCK_K)"),
            "# Rows and columns past the end wrap around; the stores leave them out.",
            "rows = offs_m % M",
            "cols = offs_n % N",
        ]
        batch = {"b": AxisText("pid_b")} if "b" in self.lengths else {}
        a_view = batch | {"m": AxisText("rows", "[:, None]"), "k": AxisText("ks", "[None, :]", "K")}
        b_view = batch | {"k": AxisText("ks", "[:, None]", "K"), "n": AxisText("cols", "[None, :]")}
        factors = [
            _Factor(self, self.lhs, "a", a_view, step),
            _Factor(self, self.rhs, "b", b_view, step),
        ]
        loop = [line for one in factors for line in one.load]
        needs_ks = any("ks" in line for line in loop)
        tile_axes = ("b", "m", "n")
        return [
            *lines,
            *dict.fromkeys([*parts(a_view, tile_axes), *parts(b_view, tile_axes)]),
            *(line for one in factors for line in one.start),
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            f"for k in range(0, K, {step}):",
            *(["    ks = k + offs_k"] if needs_ks else []),
            *(f"    {line}" for line in dict.fromkeys([*parts(a_view, "k"), *parts(b_view, "k")])),
            *(f"    {line}" for line in loop),
            f"    {dot(self, schedule, 'a', 'b')}",
            *(f"    {line}" for one in factors for line in one.advance),
        ]


def _scales(call: Call) -> tuple[str, str]:
    return literal(call.arg("alpha")), literal(call.arg("beta"))


class _Factor:
    """Lines that load one factor's tile of a step in K into the variable `name`."""

    def __init__(self, product: Contraction, side: Side, name: str, view: View, step: str) -> None:
        self.start: list[str] = []
        self.advance: list[str] = []
        other = "m" if name == "a" else "n"
        inputs = list(sources(product.program, side.value, side.index))
        if not all(any(axis in axes_of(index) for _, index in inputs) for axis in ("k", other)):
            raise NotWritable("a factor that is a broadcast vector")
        suffix = view["k"].suffix
        if is_plain(product, side):
            [(value, index)] = inputs
            made = product.program.type_of(value)
            [stride] = [s for t, s in placed(memory_order(index, made.layout)) if t.axis == "k"]
            start_view = {**view, "k": AxisText("offs_k", suffix)}
            self.start = [f"{name}_ptrs = {value}_ptr + {offset(index, made, start_view)}"]
            self.load = [f"{name} = tl.load({name}_ptrs, mask=offs_k{suffix} < K - k, other=0)"]
            self.advance = [f"{name}_ptrs += {times(step, stride)}"]
            return
        body = TileBody(product.program, view, loop="k", tag=f"_{name}")
        text = body.value(side.value, side.index)
        self.start = body.before
        # What fused code makes of the zeros past K need not be zero.
        padded = f"tl.where(ks{suffix} < K, {text}, 0.0)"
        cast = "" if product.dtype == "float32" else f".to(tl.{product.dtype})"
        self.load = [*body.lines, f"{name} = {padded}{cast}"]


def is_plain(product: Contraction, side: Side) -> bool:
    """The factor is an input, seen through views, in which a step along K is a fixed stride."""
    inputs = list(sources(product.program, side.value, side.index))
    if len(inputs) != 1 or not only_views(product.program, side.value):
        return False
    [(value, index)] = inputs
    terms = placed(memory_order(index, product.program.type_of(value).layout))
    along = [term for term, _ in terms if term.axis == "k"]
    return len(along) == 1 and along[0].is_whole


def find(program: Program) -> Contraction:
    """The program's one matrix product, with its factors' and its own index.

    Raises:
        NotWritable: there is none or more than one, or its form has no kernel here.
    """
    calls = [call for call in program.calls if call.op in CONTRACTIONS]
    if len(calls) != 1:
        raise NotWritable(f"{len(calls)} matrix products where one is needed")
    call = calls[0]
    lhs, rhs = factors(call)
    a, b = program.type_of(lhs), program.type_of(rhs)
    if a.dtype not in ("float32", "float16", "bfloat16"):
        raise NotWritable(f"a product of {a.dtype}")
    is_linear = call.op == "linear"
    rhs_shape = b.shape[::-1] if is_linear else b.shape
    batch = broadcast(a.shape[:-2], rhs_shape[:-2])
    batch = () if len(rhs_shape) <= 2 else batch
    axes = _Axes(batch, a.shape, rhs_shape)
    rhs_index = axes.rhs[::-1] if is_linear else axes.rhs
    sides = Side(lhs, axes.lhs), Side(rhs, rhs_index)
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
        lhs=sides[0],
        rhs=sides[1],
    )


def factors(call: Call) -> tuple[str, str]:
    """Names of the two factors."""
    tensors = [call.arg(p.name) for p in call.operator.params if p.kind is Kind.TENSOR]
    first, second = tensors[:2] if call.op == "linear" else tensors[-2:]
    return first.name, second.name


class _Axes:
    """Symbols and indices of a product of these shapes (the rhs as (.., k, n))."""

    def __init__(self, batch: tuple[int, ...], lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
        rows = lhs[:-1] if not batch else lhs[-2:-1]
        self.lengths: dict[str, int] = {}
        self.symbols: list[str] = []
        self.products: dict[str, str] = {}
        """Symbols that are products of others: M = D0 * D1."""
        b = self._axis("b", "B", batch)
        m = self._axis("m", "M", rows)
        n = self._axis("n", "N", rhs[-1:] if len(rhs) > 1 else ())
        k = self._axis("k", "K", lhs[-1:])
        self.out = b + m + n
        self.lhs = _broadcast_batch(b, batch, lhs[:-2]) + m + k if batch else m + k
        self.rhs = _broadcast_batch(b, batch, rhs[:-2]) + k + n

    def _axis(self, axis: str, symbol: str, dims: tuple[int, ...]) -> Index:
        if not dims:
            return ()
        names = [symbol] if len(dims) == 1 else [f"{symbol}{i}" for i in range(len(dims))]
        self.symbols += [*names, symbol] if len(dims) > 1 else names
        self.lengths[axis] = 1
        for size in dims:
            self.lengths[axis] *= size
        if len(dims) > 1:
            self.products[symbol] = times(*names)
        return flat_axis(axis, names, dims)


def _broadcast_batch(index: Index, batch: tuple[int, ...], dims: tuple[int, ...]) -> Index:
    """Index of one factor's batch dimensions, where it may broadcast."""
    tail = index[len(index) - len(dims) :]
    wide = batch[len(batch) - len(dims) :]
    return tuple(
        () if size == 1 != full else dim for dim, size, full in zip(tail, dims, wide, strict=True)
    )
