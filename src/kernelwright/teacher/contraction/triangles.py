"""Which steps of a product's sum a tile needs, where the program makes triangles of its matrices.

A block of a triangular factor that lies outside the triangle adds nothing. A tile of the result
that a later triangle drops needs no sum at all. Both follow from the tile's place alone. Omitted
zeros do not meet infinities of the other factor, so no NaN comes from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.body import TRIANGLES
from kernelwright.teacher.tile.index import Index, operand_text, shifted
from kernelwright.teacher.tile.views import (
    Side,
    is_elementwise,
    is_view,
    source,
    source_index,
    view_index,
)


@dataclass(frozen=True, slots=True)
class SumSpan:
    """The part of the summed axis "k" that a tile needs, as lines before the loop."""

    lines: tuple[str, ...] = ()
    begin: str = "0"
    end: str = "K"

    @property
    def length(self) -> str:
        return self.end if self.begin == "0" else f"{self.end} - {self.begin}"


def span(program: Program, call: Call, index: Index, factors: tuple[Side, Side]) -> SumSpan:
    """The part of the sum over "k" that a tile of the product needs.

    Args:
        call: the matrix product.
        index: index of the product's result over "m" and "n".
        factors: both factors, each with its own index.
    """
    begins, ends, skips = [], ["K"], []
    for side in factors:
        for triangle, at in _behind(program, side):
            begin, end = _bounds(triangle, *_axes(at))
            begins += begin
            ends += end
    for triangle, at in _after(program, call, index):
        skips += _skip(triangle, *_axes(at))
    lines = []
    # The start is rounded down to a block: the zeros that this adds change no finite sum.
    if begins:
        # Only a diagonal that is subtracted can put the start before 0.
        first = _joined("maximum", [*begins, *(["0"] if " - " in " ".join(begins) else [])])
        lines.append(f"begin = {operand_text(first)} // BLOCK_K * BLOCK_K")
    if len(ends) > 1:
        lines.append(f"end = {_joined('minimum', ends)}")
    # A loop without steps leaves zeros. The later triangle writes zeros there in any case.
    if skips:
        known = "end" if len(ends) > 1 else "K"
        where = " | ".join(f"({skip})" for skip in skips) if len(skips) > 1 else skips[0]
        lines.append(f"end = tl.where({where}, 0, {known})")
    if not lines:
        return SumSpan()
    comment = "# Blocks outside the triangles are zero: the sum leaves them out."
    is_cut = len(ends) > 1 or bool(skips)
    return SumSpan((comment, *lines), "begin" if begins else "0", "end" if is_cut else "K")


def _behind(program: Program, side: Side) -> Iterator[tuple[Call, Index]]:
    """Yields the triangles in front of a factor, seen through views, each with its index."""
    producer, value, index = program.producer(), side.value, side.index
    while value in producer:
        call = program.calls[producer[value]]
        if call.op in TRIANGLES:
            yield call, index
        elif not is_view(call):
            return
        else:
            try:
                index = source_index(program, call, index)
            except NotWritable:  # a view that tiles follow element by element only
                return
        value = source(call)


def _after(program: Program, call: Call, index: Index) -> Iterator[tuple[Call, Index]]:
    """Yields the triangles behind the product that all uses of its result pass, with their index.

    The search ends where a value has several users or is an output: somebody reads all of it.
    """
    value = call.outputs[0]
    while True:
        users = [user for user in program.calls if value in user.refs()]
        if len(users) != 1 or value in program.outputs:
            return
        [user] = users
        if user.op in TRIANGLES:
            yield user, index
        elif is_view(user):
            index = view_index(program, user, index)
        # A call that broadcasts the value reads an element for several positions of its result.
        elif not is_elementwise(user) or user.types[0].shape != program.type_of(value).shape:
            return
        value = user.outputs[0]


def _axes(index: Index) -> tuple[str, str]:
    """The axes that rows and columns of a triangle walk; "" for one that is no whole axis."""
    rows, columns = (dim[0].axis if len(dim) == 1 and dim[0].is_whole else "" for dim in index[-2:])
    return rows, columns


def _bounds(triangle: Call, rows: str, columns: str) -> tuple[list[str], list[str]]:
    """Where along "k" a factor's triangle starts and ends for a tile: (starts, ends), as texts.

    Each list has one text or none.
    """
    # tril keeps column <= row + diagonal, triu keeps column >= row + diagonal. Solved for the
    # dimension that is "k", this bounds k by the first or the last position of the other axis.
    diagonal, is_lower = triangle.arg("diagonal"), triangle.has(Trait.KEEPS_LOWER_TRIANGLE)
    # A triangle over other axes, such as a batch, bounds no sum.
    if "k" not in (rows, columns) or not rows or not columns:
        return [], []
    other = rows if columns == "k" else columns
    shift = diagonal if columns == "k" else -diagonal
    if is_lower == (columns == "k"):
        return [], [shifted(_end(other), shift)]
    return [shifted(_first(other), shift)], []


def _skip(triangle: Call, rows: str, columns: str) -> list[str]:
    """The text of the condition that no element of a result's tile is in the triangle, or none."""
    diagonal = triangle.arg("diagonal")
    if {rows, columns} != {"m", "n"}:
        return []
    if triangle.has(Trait.KEEPS_LOWER_TRIANGLE):
        return [f"{_first(columns)} >= {shifted(_end(rows), diagonal)}"]
    return [f"{_end(columns)} <= {shifted(_first(rows), diagonal)}"]


def _first(axis: str) -> str:
    return f"pid_{axis} * BLOCK_{axis.upper()}"


def _end(axis: str) -> str:
    return f"(pid_{axis} + 1) * BLOCK_{axis.upper()}"


def _joined(function: str, texts: list[str]) -> str:
    """Text of `tl.minimum` or `tl.maximum` over all texts, nested, as both take two operands."""
    text, *rest = dict.fromkeys(texts)
    for other in rest:
        text = f"tl.{function}({text}, {other})"
    return text
