"""Forms of operators that pick by indices, which are inputs of the program."""

from collections.abc import Iterator, Mapping

from kernelwright.ops.forms.form import Choice, Form, Shape
from kernelwright.ops.forms.maker import (
    Attributes,
    Maker,
    Operands,
    Writer,
    always,
    parameter,
    replaced,
    sizes,
)
from kernelwright.ops.sizes import Var

_INDEX = "int64"
_PICKED = Var("picked")


def _embedding(maker: Maker) -> Iterator[Form]:
    for rank in maker.ranks(1):
        for dtype in maker.space.floats:
            slots = parameter("input", rank, _INDEX), parameter("weight", 2, dtype)
            yield from maker.form(slots, always(sizes("s", rank), (Var("rows"), Var("width"))))


def _one_hot(maker: Maker) -> Iterator[Form]:
    for rank in maker.ranks(1):
        slots = (parameter("input", rank, _INDEX),)
        yield from maker.form(slots, always(sizes("s", rank), num_classes=Var("classes")))


def _select(maker: Maker) -> Iterator[Form]:
    """Forms of picks along one axis, by a row of indices or by an index for each element."""
    index = next(name for name in maker.operator.domains)
    for slot in maker.inputs(1):
        rank = slot.kind.rank
        of_index = 1 if maker.operator.name == "index_select" else rank
        slots = slot, parameter(index, of_index, _INDEX)
        yield from maker.form(slots, _picking(rank, of_index), maker.menu("dim", *range(rank)))


def _index(maker: Maker) -> Iterator[Form]:
    """Forms of x[i] with an index of one or two dimensions, and of x[i, j] with two of one."""
    for slot in maker.inputs(1):
        rank = slot.kind.rank
        x = sizes("s", rank)
        for of_index in (1, 2):
            index = parameter("indices", of_index, _INDEX)
            yield from maker.form((slot, index), always(x, sizes("p", of_index)))
        if rank > 1:
            index = parameter("indices", 1, _INDEX)
            yield from maker.form((slot, index, index), always(x, (_PICKED,), (_PICKED,)))


def _picking(rank: int, of_index: int) -> Operands:
    x = sizes("s", rank)

    def operands(choice: Choice) -> tuple[tuple[Shape, Shape], Attributes]:
        index = (_PICKED,) if of_index != rank else replaced(x, choice["dim"], _PICKED)
        return (x, index), {}

    return operands


WRITERS: Mapping[str, Writer] = {
    "embedding": _embedding,
    "one_hot": _one_hot,
    "index": _index,
    **dict.fromkeys(("gather", "index_select", "take_along_dim"), _select),
}
