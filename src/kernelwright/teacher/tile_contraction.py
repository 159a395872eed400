"""What a program with one matrix product is to a kernel writer: operands, indices, sizes, epilogue.

The product is out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]. Leading dimensions of a
batched lhs that meets a 2-D rhs are rows: they walk the axis "m". Every size has a symbol (M, N,
K, B0 ...) that the kernel takes as an argument and the wrapper reads from a tensor's shape.
"""

from dataclasses import dataclass
from functools import cached_property

from kernelwright.ops.operator import DTYPE_BYTES, Kind, TensorType
from kernelwright.ops.rules import broadcast
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.expressions import NotWritable
from kernelwright.teacher.tile_index import Index, flat_axis, times
from kernelwright.teacher.tile_views import Side, is_view, measure, source

CONTRACTIONS = ("linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm")


@dataclass(frozen=True)
class Contraction:
    program: Program
    call: Call
    lhs: Side
    rhs: Side
    index: Index
    """Index of the product itself, over "b", "m" and "n"."""
    sizes: dict[str, str]
    """Symbol -> the wrapper's expression for it, in an order that can be executed."""
    lengths: dict[str, int]
    """Axis -> its length at the program's own shapes; the axes the product has."""

    @property
    def out(self) -> TensorType:
        return self.call.types[0]

    @property
    def dtype(self) -> str:
        """Dtype of the factors."""
        return self.program.type_of(self.lhs.value).dtype

    @cached_property
    def is_wide(self) -> bool:
        """Some tensor needs 64-bit offsets."""
        made = [
            *(i.type for i in self.program.inputs),
            *(t for c in self.program.calls for t in c.types),
        ]
        return any(t.numel >= 2**31 for t in made)

    def only_views(self, value: str) -> bool:
        """Whether a factor is an input seen through views alone."""
        producer = self.program.producer()
        while value in producer:
            call = self.program.calls[producer[value]]
            if not is_view(call):
                return False
            value = source(call)
        return True

    @property
    def element_bytes(self) -> int:
        return DTYPE_BYTES[self.dtype]


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
    return Contraction(program, call, *sides, axes.out, sizes, axes.lengths)


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
