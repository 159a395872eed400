"""Forms of operators that move values: views, cuts, joins, copies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Any

from kernelwright.ops.forms.form import Choice, Form, Menu, Shape
from kernelwright.ops.forms.maker import Attributes, Maker, Operands, Writer, operand, replaced
from kernelwright.ops.forms.maker import sizes as named
from kernelwright.ops.sizes import Size, Var

Moved = tuple[Shape, Attributes]
"""The operand's shape and the attributes."""
Move = Callable[[Shape, Choice], Moved]
"""How a choice changes an operand's shape, which comes in sizes of its own."""
Menus = Callable[[int], Mapping[str, Sequence[Any]]]
"""Menus for an operand of this rank."""

_MADE = Var("made")
"""Size of an axis that the operand does not have."""
_FACTORS = (2, 4, 8)
_PIECES = (2, 3)


def _moving(move: Move, menus: Menus, low: int = 1, by: str = "") -> Writer:
    """The writer of an operator with one operand.

    Args:
        move: how a choice changes the operand's shape.
        menus: rank of the operand -> menus.
        low: lowest rank of the operand.
        by: name of the menu that decides the number, the rank or the dtype of results.
    """

    def write(maker: Maker) -> Iterator[Form]:
        for slot in maker.inputs(low):
            offered = {
                name: maker.values(name, *values) for name, values in menus(slot.kind.rank).items()
            }
            rest = {name: Menu(values) for name, values in offered.items() if name != by}
            operands = _operands(move, named("s", slot.kind.rank))
            if by:
                yield from maker.grouped(by, offered[by], (slot,), operands, rest)
            else:
                yield from maker.form((slot,), operands, rest)

    return write


def _operands(move: Move, shape: Shape) -> Operands:
    def operands(choice: Choice) -> tuple[tuple[Shape], Attributes]:
        moved, attributes = move(shape, choice)
        return (moved,), attributes

    return operands


def _any_of(*writers: Writer) -> Writer:
    def write(maker: Maker) -> Iterator[Form]:
        for writer in writers:
            yield from writer(maker)

    return write


# Menus


def _nothing(_: int) -> Mapping[str, Sequence[Any]]:
    return {}


def _each_axis(name: str, **more: Sequence[Any]) -> Menus:
    """The menus of an operator that takes one of the axes, with further menus."""
    return lambda rank: {name: range(rank), **more}


def _flat_axes(rank: int) -> Iterator[tuple[int, int]]:
    """Yields (first, last) of the axes that a flatten joins; the last axis of all is -1."""
    for first, last in combinations(range(rank), 2):
        yield first, -1 if last == rank - 1 else last


# Views


def _as_is(x: Shape, _: Choice) -> Moved:
    """The shape as it is: the attributes are menus, and any sizes are accepted."""
    return x, {}


def _transpose(x: Shape, choice: Choice) -> Moved:
    first, second = choice["axes"]
    return x, {"dim0": first, "dim1": second}


def _merge(x: Shape, choice: Choice) -> Moved:
    at = choice["axis"]
    return x, {"shape": (*x[:at], x[at] * x[at + 1], *x[at + 2 :])}


def _divide(x: Shape, choice: Choice) -> Moved:
    at, factor = choice["axis"], choice["factor"]
    parts = (factor, x[at]) if choice["factor_first"] else (x[at], factor)
    return replaced(x, at, x[at] * factor), {"shape": replaced(x, at, *parts)}


def _line_up(x: Shape, _: Choice) -> Moved:
    whole: Size = 1
    for size in x:
        whole = whole * size
    return x, {"shape": (whole,)}


def _flatten(x: Shape, choice: Choice) -> Moved:
    first, last = choice["axes"]
    return x, {"start_dim": first, "end_dim": last}


def _squeeze(x: Shape, choice: Choice) -> Moved:
    return replaced(x, choice["dim"], 1), {}


def _widen(x: Shape, choice: Choice) -> Moved:
    return replaced(x, choice["axis"], 1), {"size": replaced(x, choice["axis"], _MADE)}


def _lead(x: Shape, _: Choice) -> Moved:
    return x, {"size": (_MADE, *x)}


_PARTS: Mapping[str, Callable[[Size], tuple[Size, Attributes]]] = {
    "first half": lambda n: (n * 2, {"end": n}),
    "second half": lambda n: (n * 2, {"start": n}),
    "every second": lambda n: (n, {"step": 2}),
    "first few": lambda n: (n + _MADE, {"end": _MADE}),
    "all but the first": lambda n: (n + 1, {"start": 1}),
    "all but the last": lambda n: (n + 1, {"end": -1}),
}
"""The part that a slice keeps -> the size of the axis, in a size of its own, and its spelling."""


def _slice(x: Shape, choice: Choice) -> Moved:
    size, attributes = _PARTS[choice["part"]](x[choice["dim"]])
    return replaced(x, choice["dim"], size), attributes


def _chunk(x: Shape, choice: Choice) -> Moved:
    return replaced(x, choice["dim"], x[choice["dim"]] * choice["chunks"]), {}


def _split(x: Shape, choice: Choice) -> Moved:
    at, pieces = choice["dim"], choice["pieces"]
    if choice["equal"]:
        return replaced(x, at, x[at] * pieces), {"split_size_or_sections": x[at]}
    sections = named("piece", pieces)
    return replaced(x, at, sum(sections)), {"split_size_or_sections": sections}


def _unbind(x: Shape, choice: Choice) -> Moved:
    return replaced(x, choice["dim"], choice["pieces"]), {}


# Copies


def _pads(rank: int) -> Mapping[str, Sequence[Any]]:
    return {"pad": ((1, 1), (0, 1), (2, 0), *((1, 1, 1, 1), (0, 1, 0, 1)) * (rank > 1))}


def _flips(rank: int) -> Mapping[str, Sequence[Any]]:
    return {"dims": (*((axis,) for axis in range(rank)), *((-2, -1),) * (rank > 1))}


def _rolls(rank: int) -> Mapping[str, Sequence[Any]]:
    return {"shifts": ((1,), (-1,), (2,)), "dims": [(axis,) for axis in range(rank)]}


def _repeat(x: Shape, choice: Choice) -> Moved:
    return x, {"repeats": replaced((1,) * len(x), choice["axis"], choice["times"])}


def _repeat_whole(x: Shape, choice: Choice) -> Moved:
    return x, {"repeats": (choice["times"], *(1,) * len(x))}


def _joined(maker: Maker) -> Iterator[Form]:
    """Forms of cat, along an axis where sizes may differ, and of stack, along a new axis."""
    is_cat = maker.operator.name == "cat"
    for rank in maker.ranks(1):
        dims = maker.menu("dim", *range(rank if is_cat else rank + 1))
        for dtype in maker.dtypes:
            for count in _PIECES:
                slots = (operand("tensors", rank, dtype),) * count
                yield from maker.form(slots, _joining(rank, count, is_cat), dims)


def _joining(rank: int, count: int, is_cat: bool) -> Operands:
    x, pieces = named("s", rank), named("piece", count)

    def operands(choice: Choice) -> tuple[list[Shape], Attributes]:
        if is_cat:
            return [replaced(x, choice["dim"], piece) for piece in pieces], {}
        return [x] * count, {}

    return operands


def _constant(maker: Maker) -> Iterator[Form]:
    """Forms of operators that make a constant in the shape of a floating-point tensor."""
    for slot in maker.inputs(1, maker.space.floats):
        yield from maker.form((slot,), _operands(_as_is, named("s", slot.kind.rank)))


WRITERS: Mapping[str, Writer] = {
    "transpose": _moving(_transpose, lambda rank: {"axes": [*combinations(range(rank), 2)]}, 2),
    "t": _moving(_as_is, _nothing, 2),
    # the first order is the one there is
    "permute": _moving(_as_is, lambda rank: {"dims": [*permutations(range(rank))][1:]}, 2),
    "reshape": _any_of(
        _moving(_merge, lambda rank: {"axis": range(rank - 1)}, 2),
        _moving(_divide, _each_axis("axis", factor=_FACTORS, factor_first=(True, False))),
        _moving(_line_up, _nothing, 3),
    ),
    "flatten": _moving(_flatten, lambda rank: {"axes": [*_flat_axes(rank)]}, 2, by="axes"),
    "squeeze": _moving(_squeeze, _each_axis("dim")),
    "unsqueeze": _moving(_as_is, lambda rank: {"dim": range(rank + 1)}, 0),
    "broadcast_to": _any_of(_moving(_widen, _each_axis("axis")), _moving(_lead, _nothing, 0)),
    "slice": _moving(_slice, _each_axis("dim", part=tuple(_PARTS))),
    "select": _moving(_as_is, _each_axis("dim", index=(0, -1))),
    "unfold": _moving(_as_is, _each_axis("dimension", size=(2, 3), step=(1, 2))),
    "chunk": _moving(_chunk, _each_axis("dim", chunks=_PIECES), by="chunks"),
    "split": _moving(_split, _each_axis("dim", pieces=_PIECES, equal=(True, False)), by="pieces"),
    "unbind": _moving(_unbind, _each_axis("dim", pieces=_PIECES), by="pieces"),
    "pad": _moving(_as_is, _pads),
    "cat": _joined,
    "stack": _joined,
    "flip": _moving(_as_is, _flips),
    "roll": _moving(_as_is, _rolls),
    "repeat": _any_of(
        _moving(_repeat, _each_axis("axis", times=_PIECES)),
        _moving(_repeat_whole, lambda _: {"times": _PIECES}),
    ),
    # layouts are the same below rank 4
    "to_layout": _moving(_as_is, _nothing, 4),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like"), _constant),
}
