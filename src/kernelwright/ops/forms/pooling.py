"""Forms of pools and of interpolation, always with a batch."""

from collections.abc import Iterator, Mapping

from kernelwright.ops.forms.form import Choice, Form, Menu, Shape
from kernelwright.ops.forms.maker import (
    Attributes,
    Maker,
    Operands,
    Writer,
    always,
    operand,
    sizes,
)
from kernelwright.ops.pooling import OPERATORS, RANKS_OF_MODES


def _pool(maker: Maker) -> Iterator[Form]:
    """Forms of pools over at least 3 elements a dimension."""
    # Of 2 elements with padding, each window may hold one: the pool would change nothing.
    rank = int(maker.operator.name[-2]) + 2
    batch, channels, *more = sizes("s", rank)
    shape = batch, channels, *(size + 2 for size in more)
    for dtype in maker.space.floats:
        yield from maker.form((operand("input", rank, dtype),), always(shape))


def _adaptive(maker: Maker) -> Iterator[Form]:
    rank = int(maker.operator.name[-2]) + 2
    for dtype in maker.space.floats:
        yield from maker.form((operand("input", rank, dtype),), _shrunk(rank))


def _shrunk(rank: int) -> Operands:
    """Operands of an adaptive pool to a smaller size, as a pool to the same size is a copy."""
    batch, channels, *more = sizes("s", rank)

    def operands(choice: Choice) -> tuple[tuple[Shape], Attributes]:
        out_sizes = choice["output_size"]
        return ((batch, channels, *(m + k for m, k in zip(more, out_sizes, strict=True))),), {}

    return operands


def _interpolate(maker: Maker) -> Iterator[Form]:
    """Forms of interpolation to a size or by a factor; linear modes also have `align_corners`."""
    for slot in maker.inputs(3, maker.space.floats):
        rank = slot.kind.rank
        yield from maker.form((slot,), _resized(rank))
        modes = tuple(mode for mode, ranks in RANKS_OF_MODES.items() if rank in ranks)
        menus = maker.menu("align_corners", False, True) | {"mode": Menu(modes)}
        yield from maker.form((slot,), _resized(rank), menus)


def _resized(rank: int) -> Operands:
    x, out_sizes = sizes("s", rank), sizes("o", rank - 2)

    def operands(choice: Choice) -> tuple[tuple[Shape], Attributes]:
        return (x,), {"size": out_sizes if choice["scale_factor"] is None else None}

    return operands


WRITERS: Mapping[str, Writer] = {
    **{op.name: _adaptive if "adaptive" in op.name else _pool for op in OPERATORS},
    "interpolate": _interpolate,
}
