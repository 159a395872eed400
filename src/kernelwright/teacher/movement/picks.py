"""Rules of operators that pick elements by index: rows of tables, entries along a dimension."""

from kernelwright.ops.indexing import index_place
from kernelwright.ops.rules import dim_index
from kernelwright.programs.program import Call
from kernelwright.teacher.tile.body import Rules, TileBody
from kernelwright.teacher.tile.index import Dim, Index, align, replaced


def _picked(
    body: TileBody, value: str, at: int, indices: str, index: Index, *, wraps: bool = False
) -> Dim:
    """The dimension `at` of a value, with positions that another tensor holds.

    Args:
        indices: name of the tensor of positions.
        index: index of that tensor.
        wraps: whether negative positions count from the end.
    """
    size, length = body.sizes.of(value)[at], body.shape(value)[at]
    # The only valid position is the first one.
    if length == 1:
        return ()
    text = body.value(indices, index)
    # Most indices are int64. Offsets below 2**31 need 32 bits, and 64-bit arithmetic is slower.
    if not body.is_wide:
        text = body.assign(f"{text}.to(tl.int32)", "picked")
    if wraps:
        text = body.assign(f"tl.where({text} < 0, {text} + {size}, {text})", "picked")
    return body.position(text, size, length, body.conditions(*index))


def _embedding(body: TileBody, call: Call, index: Index, _: int) -> str:
    weight, *rest = body.operand(call, "weight"), index[-1]
    row = _picked(body, weight, 0, body.operand(call), index[:-1])
    return body.value(weight, (row, *rest))


def _index_select(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, indices = body.operand(call), body.operand(call, "index")
    if not index:
        return body.value(value, index)
    at = dim_index(call.arg("dim"), len(index))
    along = (index[at],) if body.shape(indices) else ()
    return body.value(value, replaced(index, at, _picked(body, value, at, indices, along)))


def _gather(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, indices = body.operand(call), body.operand(call, "index")
    if not body.shape(value):
        return body.value(value, ())
    at = dim_index(call.arg("dim"), len(body.shape(value)))
    # The indices may be shorter than the value along the other dimensions.
    moved = [body.within(dim, value, i) if i != at else dim for i, dim in enumerate(index)]
    return body.value(value, replaced(tuple(moved), at, _picked(body, value, at, indices, index)))


def _take_along_dim(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, indices = body.operand(call), body.operand(call, "indices")
    at = dim_index(call.arg("dim"), len(index))

    def seen(name: str) -> Index:
        return tuple(() if n == 1 else dim for n, dim in zip(body.shape(name), index, strict=True))

    picked = _picked(body, value, at, indices, seen(indices))
    return body.value(value, replaced(seen(value), at, picked))


def _index(body: TileBody, call: Call, index: Index, _: int) -> str:
    """The rule of x[i, :, j]: indices broadcast together, and other dimensions keep their order."""
    value = body.operand(call)
    names = {at: ref.name for at, ref in enumerate(call.arg("indices")) if ref is not None}
    # The dimensions of all indices stand together in the result, at the place of NumPy's rule.
    first = index_place(tuple(names))
    last = first + max(len(body.shape(name)) for name in names.values())
    kept = iter((*index[:first], *index[last:]))
    moved = [
        _picked(body, value, at, names[at], align(index[first:last], body.shape(names[at])),
                wraps=True)
        if at in names else next(kept)
        for at in range(len(body.shape(value)))
    ]  # fmt: skip
    return body.value(value, tuple(moved))


def _one_hot(body: TileBody, call: Call, index: Index, _: int) -> str:
    value = body.value(body.operand(call), index[:-1])
    return body.line(call, f"({value} == {body.text(index[-1])}).to(tl.int64)", index)


PICKS: Rules = {
    "embedding": _embedding,
    "index_select": _index_select,
    "gather": _gather,
    "take_along_dim": _take_along_dim,
    "index": _index,
    "one_hot": _one_hot,
}
