"""Rules of operators that move elements: which element of the input each result element is."""

from kernelwright.ops.rules import dim_index, is_float
from kernelwright.programs.program import Call
from kernelwright.teacher.movement.interpolate import interpolate
from kernelwright.teacher.movement.picks import PICKS
from kernelwright.teacher.text.dtypes import triton_dtype
from kernelwright.teacher.text.expressions import literal
from kernelwright.teacher.text.moved_sizes import piece, slice_range, tensors
from kernelwright.teacher.tile.body import Rules, TileBody
from kernelwright.teacher.tile.index import (
    Dim,
    Index,
    all_of,
    factor,
    is_variable,
    operand_text,
    replaced,
    shifted,
    times,
)


def _along(body: TileBody, call: Call, name: str = "dim") -> tuple[str, int]:
    """(name of the input, dimension that the attribute `name` gives)."""
    value = body.operand(call)
    return value, dim_index(call.arg(name), len(body.shape(value)))


def _moved(body: TileBody, value: str, at: int, text: str, *sources: Dim) -> Dim:
    """The dimension `at` of a value, with positions given by a text.

    Args:
        sources: dimensions from which the text is computed. Their conditions guard the load.
    """
    size, length = body.sizes.of(value)[at], body.shape(value)[at]
    return body.position(text, size, length, body.conditions(*sources))


# Cuts


def _slice(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, at = _along(body, call)
    size = body.sizes.of(value)[at]
    start, step = call.arg("start") or 0, call.arg("step")
    first = str(start)
    # Python's slice of a range clips a start that lies before the first element.
    if start < 0 and size != "1":
        first = body.sizes.symbol(f"{slice_range(call, size)}.start", f"{call.outputs[0]}START")
    text = body.text(index[at])
    text = text if step == 1 else f"{text} * {step}"
    moved = _moved(body, value, at, shifted(text, first), index[at])
    return body.value(value, replaced(index, at, moved))


def _select(body: TileBody, call: Call, index: Index, output: int) -> str:
    value, at = _along(body, call)
    number = output if call.op == "unbind" else call.arg("index")
    moved = _moved(body, value, at, _place(body, call, value, at, number))
    return body.value(value, (*index[:at], moved, *index[at:]))


def _place(body: TileBody, call: Call, value: str, at: int, number: int) -> str:
    """Text of the position `number` along a dimension; negative numbers count from the end."""
    if number >= 0:
        return str(number)
    return body.sizes.symbol(f"{body.sizes.of(value)[at]} - {-number}", f"{call.outputs[0]}AT")


def _unfold(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, at = _along(body, call, "dimension")
    *rest, inner = index
    outer = rest[at]
    text = f"{body.text(outer)} * {call.arg('step')} + {body.text(inner)}"
    return body.value(value, replaced(tuple(rest), at, _moved(body, value, at, text, outer, inner)))


def _split(body: TileBody, call: Call, index: Index, output: int) -> str:
    value, at = _along(body, call)
    start, _ = piece(call, body.sizes.of(value)[at], output)
    first = start if start.isdigit() else body.sizes.symbol(start, f"{call.outputs[output]}START")
    moved = _moved(body, value, at, shifted(body.text(index[at]), first), index[at])
    return body.value(value, replaced(index, at, moved))


# Joins


def _cat(body: TileBody, call: Call, index: Index, _: int) -> str:
    # Each part is loaded only where the position lies in the part, so each element is read once.
    names = tensors(call)
    at = dim_index(call.arg("dim"), len(body.shape(names[0])))
    position, start, text = body.text(index[at]), "0", ""
    for i, name in enumerate(names):
        size = body.sizes.of(name)[at]
        end = body.sizes.symbol(f"{start} + {size}", f"{call.outputs[0]}END{i}") if i else size
        conditions = [*body.conditions(index[at])]
        if i:
            conditions.append(f"{position} >= {start}")
        if i < len(names) - 1:
            conditions.append(f"{position} < {end}")
        from_start = shifted(position, f"-{start}" if i else "0")
        moved = body.position(from_start, size, body.shape(name)[at], conditions)
        part = body.as_made(call, name, body.value(name, replaced(index, at, moved)))
        text = part if not i else f"tl.where({position} < {start}, {text}, {part})"
        text = body.line(call, text, index) if i else text
        start = end
    return text


def _stack(body: TileBody, call: Call, index: Index, _: int) -> str:
    names = tensors(call)
    at = dim_index(call.arg("dim"), len(index))
    position, rest, text = body.text(index[at]), replaced(index, at), ""
    for i, name in enumerate(names):
        is_here = f"{position} == {i}"
        here = body.guarded(rest, is_here) if len(names) > 1 else rest
        part = body.as_made(call, name, body.value(name, here))
        text = part if not i else body.line(call, f"tl.where({is_here}, {part}, {text})", index)
    return text


def _pad(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, pad = body.operand(call), call.arg("pad")
    shape, moved, tests = body.shape(value), list(index), list[str]()
    for i in range(len(pad) // 2):
        # Pairs of `pad` begin with the last dimension.
        at = len(shape) - 1 - i
        before, after = pad[2 * i : 2 * i + 2]
        if not (before or after):
            continue
        position = body.text(index[at])
        source = shifted(position, -before) if before else position
        source = source if is_variable(source) else body.assign(source)
        # A negative number cuts elements off, so no position leaves the input on that side.
        mine = [f"{source} >= 0"] if before > 0 else []
        mine += [f"{source} < {body.sizes.of(value)[at]}"] if after > 0 else []
        tests += mine
        conditions = [*body.conditions(index[at]), *mine]
        moved[at] = body.position(source, body.sizes.of(value)[at], shape[at], conditions)
    text = body.value(value, tuple(moved))
    if not tests:
        return text
    # A masked load gives 0, and calls in front of the padding may turn this 0 into something else.
    fill = _constant(call.arg("value") or 0, call.types[0].dtype)
    return body.line(call, f"tl.where({all_of(tests)}, {text}, {fill})", index)


def _constant(value: float, dtype: str) -> str:
    return literal(float(value) if is_float(dtype) else int(value))


# Parts written anew


def _select_scatter(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, at = _along(body, call)
    source, rest = body.operand(call, "src"), replaced(index, at)
    # A dimension of size 1 is overwritten as a whole.
    if not index[at]:
        return body.value(source, rest)
    place = _place(body, call, value, at, call.arg("index"))
    is_there = f"{body.text(index[at])} == {place}"
    part = body.value(source, body.guarded(rest, is_there))
    return body.line(call, f"tl.where({is_there}, {part}, {body.value(value, index)})", index)


def _slice_scatter(body: TileBody, call: Call, index: Index, _: int) -> str:
    value, at = _along(body, call)
    source, step = body.operand(call, "src"), call.arg("step")
    length = body.shape(source)[at]
    # One element is overwritten as a whole, or by an empty source not at all.
    if not (length and index[at]):
        return body.value(source if length else value, index)
    size = body.sizes.of(value)[at]
    begin = f"{slice_range(call, size)}.start"
    start = call.arg("start") or 0
    first = str(start) if start >= 0 else body.sizes.symbol(begin, f"{call.outputs[0]}START")
    count = body.sizes.of(source)[at]
    position = body.assign(shifted(body.text(index[at]), f"-{first}" if first != "0" else "0"))
    tests = [f"{position} >= 0", f"{position} < {times(count, str(step))}"]
    if step > 1:
        tests.append(f"{position} % {step} == 0")
    text = position if step == 1 else f"{position} // {step}"
    moved = body.position(text, count, length, (*body.conditions(index[at]), *tests))
    part = body.value(source, replaced(index, at, moved))
    text = f"tl.where({all_of(tests)}, {part}, {body.value(value, index)})"
    return body.line(call, text, index)


# Rearrangements


def _flip(body: TileBody, call: Call, index: Index, _: int) -> str:
    return body.value(body.operand(call), body.reversed(index, call.arg("dims")))


def _roll(body: TileBody, call: Call, index: Index, _: int) -> str:
    value = body.operand(call)
    shifts, dims = (
        option if isinstance(option, tuple) else (option,)
        for option in (call.arg("shifts"), call.arg("dims"))
    )
    if not dims:
        return _roll_flat(body, call, index, shifts[0])
    moved = list(index)
    for shift, dim in zip(shifts, dims, strict=True):
        at = dim_index(dim, len(index))
        text = _rolled(body, call, body.text(moved[at]), body.sizes.of(value)[at], shift, at)
        moved[at] = _moved(body, value, at, text, index[at])
    return body.value(value, tuple(moved))


def _rolled(body: TileBody, call: Call, text: str, size: str, shift: int, at: int) -> str:
    # The wrapper's `%` is Python's and never negative. A kernel's `%` has the dividend's sign.
    back = body.sizes.symbol(f"-({shift}) % ({size})", f"{call.outputs[0]}SHIFT{at}")
    return f"({text} + {back}) % {factor(size)}"


def _roll_flat(body: TileBody, call: Call, index: Index, shift: int) -> str:
    """A roll without `dims`: over all elements, in the order of a contiguous tensor."""
    value = body.operand(call)
    text = body.flat(index)
    count = body.sizes.symbol(" * ".join(body.sizes.of(value)) or "1", f"{value}N")
    rolled = _rolled(body, call, text, count, shift, 0)
    return body.value(value, body.unflatten(rolled, value, body.conditions(*index)))


def _repeat(body: TileBody, call: Call, index: Index, _: int) -> str:
    value = body.operand(call)
    shape, sizes = body.shape(value), body.sizes.of(value)
    # Repeats in front of the input's dimensions make equal copies, so their position does not
    # count.
    repeats = call.arg("repeats")[len(index) - len(shape) :]
    moved = list(index[len(index) - len(shape) :])
    for at, times_repeated in enumerate(repeats):
        if shape[at] == 1:
            moved[at] = ()
        elif times_repeated != 1:
            text = f"{operand_text(body.text(moved[at]))} % {factor(sizes[at])}"
            moved[at] = _moved(body, value, at, text, moved[at])
    return body.value(value, tuple(moved))


def _triangle(body: TileBody, call: Call, index: Index, _: int) -> str:
    kept = body.kept(call, index)
    # Masks along a diagonal break loads up: not in loops, which visit few blocks outside.
    inner = index if body.loop else body.guarded(index, kept)
    text = body.value(body.operand(call), inner)
    return body.line(call, f"tl.where({kept}, {text}, {_constant(0, call.types[0].dtype)})", index)


# Constants


_NUMBERS = {"zeros_like": 0, "ones_like": 1}
CONSTANTS = frozenset({*_NUMBERS, "full_like", "full"})
"""Operators that make one number in place of each element."""


def filled(call: Call) -> str:
    """Text of the number that a call makes, as a scalar tensor, because a literal has no `.to`."""
    value = _NUMBERS[call.op] if call.op in _NUMBERS else call.arg("fill_value")
    return _scalar(value, call.types[0].dtype)


def _scalar(value: float, dtype: str) -> str:
    return f"tl.full((), {_constant(value, dtype)}, {triton_dtype(dtype)})"


def _filled(body: TileBody, call: Call, index: Index, _: int) -> str:
    return body.line(call, filled(call), index)


def _arange(body: TileBody, call: Call, index: Index, _: int) -> str:
    """The rule of arange: the position along the axis, times the step, plus the start."""
    dtype, start, step = call.types[0].dtype, call.arg("start"), call.arg("step")
    if not index[0]:
        return body.line(call, _scalar(start, dtype), index)
    text = f"{operand_text(body.text(index[0]))}.to({triton_dtype(dtype)})"
    text = text if step == 1 else f"{text} * {literal(step)}"
    return body.line(call, text if start == 0 else f"{text} + {literal(start)}", index)


RULES: Rules = {
    "slice": _slice,
    "select": _select,
    "unbind": _select,
    "unfold": _unfold,
    "chunk": _split,
    "split": _split,
    "cat": _cat,
    "stack": _stack,
    "pad": _pad,
    "flip": _flip,
    "roll": _roll,
    "repeat": _repeat,
    "triu": _triangle,
    "tril": _triangle,
    **PICKS,
    "interpolate": interpolate,
    "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter,
    "arange": _arange,
    **dict.fromkeys(CONSTANTS, _filled),
}

MOVES = frozenset(RULES) - CONSTANTS
"""Operators that give elements other places, or make them of their places."""
COPIES = frozenset(RULES) - CONSTANTS - {"pad", "one_hot", "interpolate", "arange"} | {"zeros_like"}
"""Operators that show elements as they are, and zeros where nothing is loaded."""
