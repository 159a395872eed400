"""Operators that only rename elements, followed by index: forwards and back to the source."""

from kernelwright.ops.rules import dim_index
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.expressions import NotWritable
from kernelwright.teacher.tile_index import Index, align, reshape

_IN_ORDER = frozenset({"reshape", "flatten", "squeeze", "unsqueeze"})
"""Same elements in the same order."""
_PERMUTING = frozenset({"permute", "transpose", "t"})


def is_view(call: Call) -> bool:
    if call.op == "dropout":
        return not call.arg("training")
    return call.op in _IN_ORDER | _PERMUTING | {"broadcast_to", "to_layout"}


def source(call: Call) -> str:
    """Name of the value a view shows."""
    return next(call.refs())


def source_index(program: Program, call: Call, index: Index) -> Index:
    """Index into a view's source of the element at `index` of the view."""
    shape = program.type_of(source(call)).shape
    if call.op in _IN_ORDER:
        return reshape(index, shape)
    if call.op in _PERMUTING:
        dims = _dims(call, len(shape))
        return tuple(index[dims.index(dim)] for dim in range(len(shape)))
    return align(index, shape) if call.op == "broadcast_to" else index


def view_index(program: Program, call: Call, index: Index) -> Index:
    """Index into a view of the element at `index` of its source."""
    shape = program.type_of(source(call)).shape
    if call.op == "unsqueeze":
        at = dim_index(call.arg("dim"), len(shape) + 1)
        return (*index[:at], (), *index[at:])
    if call.op in _IN_ORDER:
        return reshape(index, call.types[0].shape)
    if call.op in _PERMUTING:
        return tuple(index[dim] for dim in _dims(call, len(shape)))
    if call.types[0].shape != shape:
        raise NotWritable("a broadcast of the product itself")
    return index


def _dims(call: Call, rank: int) -> list[int]:
    """Source dimension of each dimension of the view."""
    if call.op == "permute":
        return [dim_index(d, rank) for d in call.arg("dims")]
    dims = list(range(rank))
    if call.op == "t":
        return dims[::-1]
    first, second = (dim_index(call.arg(name), rank) for name in ("dim0", "dim1"))
    dims[first], dims[second] = second, first
    return dims
