"""Operators that only rename elements: an index is followed from source to view, and back."""

from collections.abc import Container, Iterator
from dataclasses import dataclass

from kernelwright.ops.rules import dim_index
from kernelwright.programs.dataflow import permutation
from kernelwright.programs.fragments.fragment import PERMUTING, RESHAPING
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.text.expressions import NotWritable, is_pointwise
from kernelwright.teacher.tile.index import Index, align, reshape


@dataclass(frozen=True, slots=True)
class Side:
    """A value that a kernel reads: a factor of a product, what a window slides over."""

    value: str
    """Name of the program's value."""
    index: Index
    """Its index over the kernel's axes."""


def is_view(call: Call) -> bool:
    """Whether the call only renames elements of its input; inference dropout counts as a view."""
    if call.op == "dropout":
        return not call.arg("training")
    return call.op in RESHAPING | PERMUTING | {"broadcast_to", "to_layout"}


def source(call: Call) -> str:
    """Name of the value that a view shows."""
    return next(call.refs())


def only_views(program: Program, value: str, also: Container[str] = ()) -> bool:
    """Whether nothing but views, and operators in `also`, lies between the inputs and a value."""
    at = program.producer().get(value)
    if at is None:
        return True
    call = program.calls[at]
    if not is_view(call) and call.op not in also:
        return False
    return all(only_views(program, name, also) for name in call.refs())


def source_index(program: Program, call: Call, index: Index) -> Index:
    """Index into a view's source of the element at `index` of the view.

    Raises:
        NotWritable: dimensions of source and view do not divide each other.
    """
    shape = program.type_of(source(call)).shape
    if call.op in RESHAPING:
        return reshape(index, shape)
    if call.op in PERMUTING:
        dims = permutation(call, len(shape))
        # The inverse permutation: dimension `dim` of the source is where the view has put it.
        return tuple(index[dims.index(dim)] for dim in range(len(shape)))
    return align(index, shape) if call.op == "broadcast_to" else index


def view_index(program: Program, call: Call, index: Index) -> Index:
    """Index into a view of the element at `index` of its source.

    Raises:
        NotWritable: dimensions do not divide each other, or the view repeats elements.
    """
    shape = program.type_of(source(call)).shape
    if call.op == "unsqueeze":
        # `reshape` would give the new dimension a neighbour's term of length 1.
        at = dim_index(call.arg("dim"), len(shape) + 1)
        return (*index[:at], (), *index[at:])
    if call.op in RESHAPING:
        return reshape(index, call.types[0].shape)
    if call.op in PERMUTING:
        return tuple(index[dim] for dim in permutation(call, len(shape)))
    if call.types[0].shape != shape:
        raise NotWritable("a broadcast of the tile itself")
    return index


def is_elementwise(call: Call) -> bool:
    """Whether each element of the result needs one element of each operand.

    Inference batch_norm counts, as its statistics are operands.
    """
    return is_pointwise(call.op) or (call.op == "batch_norm" and not call.arg("training"))


def operands(program: Program, call: Call, index: Index) -> dict[str, Side]:
    """The tensor operands of an elementwise call.

    Args:
        index: index of the result.

    Returns:
        Parameter name -> operand, at the index that the result's index needs.
    """
    sides = {}
    for key, ref in call.args:
        if not isinstance(ref, Ref):
            continue
        shape = program.type_of(ref.name).shape
        if shape == call.types[0].shape:
            met = index
        elif call.op == "batch_norm":
            met = index[1:2]  # statistics and weights lie along the channels
        else:
            met = align(index, shape)
        sides[key] = Side(ref.name, met)
    return sides


def sources(program: Program, value: str, index: Index) -> Iterator[tuple[str, Index]]:
    """The values that a value is computed from through views and elementwise calls, with their
    indices: inputs of the program, and results of other calls. Each pair appears once.

    Pairs that were visited are skipped: the number of paths can be exponential in the calls.
    """
    pending, visited = [(value, index)], set[tuple[str, Index]]()
    while pending:
        pair = pending.pop()
        if pair in visited:
            continue
        visited.add(pair)
        before = _before(program, *pair)
        if before is None:
            yield pair
        else:
            pending += reversed(before)  # the first operand is the next to be visited


def _before(program: Program, value: str, index: Index) -> list[tuple[str, Index]] | None:
    """The (value, index) pairs that a view or an elementwise call reads for `value` at `index`.

    Returns:
        None for an input of the program and for the result of any other call.
    """
    position = program.producer().get(value)
    if position is None:
        return None
    call = program.calls[position]
    if is_view(call):
        return [(source(call), source_index(program, call, index))]
    if is_elementwise(call):
        return [(side.value, side.index) for side in operands(program, call, index).values()]
    return None
