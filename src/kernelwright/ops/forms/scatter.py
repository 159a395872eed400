"""Forms of operators that write a part of a tensor anew: the input and what is written."""

from collections.abc import Iterator, Mapping

from kernelwright.ops.forms.form import Choice, Form, Shape
from kernelwright.ops.forms.maker import (
    Attributes,
    Maker,
    Operands,
    Writer,
    operand,
    replaced,
    sizes,
)
from kernelwright.ops.sizes import Var

_HALF = Var("half")


def _select(maker: Maker) -> Iterator[Form]:
    for slot in maker.inputs(1):
        rank = slot.kind.rank
        src = operand("src", rank - 1, slot.kind.dtype)
        yield from maker.form((slot, src), _selected(rank), maker.menu("dim", *range(rank)))


def _selected(rank: int) -> Operands:
    x = sizes("s", rank)

    def operands(choice: Choice) -> tuple[tuple[Shape, Shape], Attributes]:
        return (x, replaced(x, choice["dim"])), {}

    return operands


_PARTS: Mapping[str, Attributes] = {
    "first half": {"end": _HALF},
    "second half": {"start": _HALF},
    "every second": {"step": 2},
}


def _slice(maker: Maker) -> Iterator[Form]:
    """Forms of slice_scatter that write half of a dimension."""
    for slot in maker.inputs(1):
        rank = slot.kind.rank
        src = operand("src", rank, slot.kind.dtype)
        menus = maker.menu("dim", *range(rank)) | maker.menu("part", *_PARTS)
        yield from maker.form((slot, src), _half(rank), menus)


def _half(rank: int) -> Operands:
    x = sizes("s", rank)

    def operands(choice: Choice) -> tuple[tuple[Shape, Shape], Attributes]:
        at = choice["dim"]
        shapes = replaced(x, at, _HALF * 2), replaced(x, at, _HALF)
        return shapes, _PARTS[choice["part"]]

    return operands


WRITERS: Mapping[str, Writer] = {"select_scatter": _select, "slice_scatter": _slice}
