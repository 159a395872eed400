"""Forms of matrix products, and of the triangles of matrices."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from kernelwright.ops.forms.broadcast import Aligned, Into
from kernelwright.ops.forms.form import Choice, Form, Shape
from kernelwright.ops.forms.maker import (
    Attributes,
    Maker,
    Operands,
    Writer,
    always,
    operand,
    parameter,
    sizes,
)
from kernelwright.ops.sizes import Size, Var

_ROWS, _INNER, _COLUMNS = Var("m"), Var("k"), Var("n")
_BATCH = Var("b")


def _product(maker: Maker) -> Iterator[Form]:
    """Forms of products of vectors, matrices and batches; an operator refuses ranks it lacks."""
    left, right = (p.name for p in maker.operator.params)
    for ranks in product(maker.ranks(1), repeat=2):
        for dtype in maker.space.floats:  # integers have no products on a GPU
            slots = operand(left, ranks[0], dtype), operand(right, ranks[1], dtype)
            batches = Aligned([max(rank - 2, 0) for rank in ranks], maker.space.broadcast)
            yield from maker.form(slots, _factors(ranks, batches), batches.menus)


def _factors(ranks: Sequence[int], batches: Aligned) -> Operands:
    rows = (_ROWS,) if ranks[0] > 1 else ()
    columns = (_COLUMNS,) if ranks[1] > 1 else ()

    def operands(choice: Choice) -> tuple[tuple[Shape, Shape], Attributes]:
        before, after = batches.shapes(choice)
        return ((*before, *rows, _INNER), (*after, _INNER, *columns)), {}

    return operands


def _matrices(*batch: Size) -> tuple[Shape, Shape]:
    return (*batch, _ROWS, _INNER), (*batch, _INNER, _COLUMNS)


def _batches(maker: Maker) -> Iterator[Form]:
    for dtype in maker.space.floats:
        slots = operand("input", 3, dtype), operand("mat2", 3, dtype)
        yield from maker.form(slots, always(*_matrices(_BATCH)))


def _added(maker: Maker) -> Iterator[Form]:
    """Forms of addmm and baddbmm: a product, and an operand that broadcasts to the product."""
    _, left, right = (p.name for p in maker.operator.params[:3])
    batch = (_BATCH,) if maker.operator.name == "baddbmm" else ()
    product_axes = (*batch, _ROWS, _COLUMNS)
    for rank in maker.ranks(1, len(product_axes)):
        spread = Into(product_axes, rank, maker.space.broadcast)
        for dtype in maker.space.floats:
            matrices = (operand(name, len(product_axes), dtype) for name in (left, right))
            slots = operand("input", rank, dtype), *matrices
            yield from maker.form(slots, spread.before(*_matrices(*batch)), spread.menus)


def _linear(maker: Maker) -> Iterator[Form]:
    shapes = (_COLUMNS, _INNER), (_COLUMNS,)
    for rank in maker.ranks(1):
        x = (*sizes("s", rank - 1), _INNER)
        for dtype in maker.space.floats:
            slots = (
                operand("input", rank, dtype),
                parameter("weight", 2, dtype),
                parameter("bias", 1, dtype),
            )
            yield from maker.form(slots, always(x, *shapes))
            yield from maker.form(slots[:2], always(x, *shapes[:1]))


def _triangle(maker: Maker) -> Iterator[Form]:
    for slot in maker.inputs(2):
        yield from maker.form((slot,), always(sizes("s", slot.kind.rank)))


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(("matmul", "mm", "mv", "dot"), _product),
    "bmm": _batches,
    **dict.fromkeys(("addmm", "baddbmm"), _added),
    "linear": _linear,
    **dict.fromkeys(("triu", "tril"), _triangle),
}
