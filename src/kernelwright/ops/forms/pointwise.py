"""Forms of pointwise operators: operands of any ranks that broadcast, or numbers in their place."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from kernelwright.ops.forms.broadcast import Aligned
from kernelwright.ops.forms.form import Form, Menu, Slot, ValueKind
from kernelwright.ops.forms.maker import INTEGERS, Maker, Writer, always, operand, sizes
from kernelwright.ops.operator import ParameterKind as ParamKind
from kernelwright.ops.pointwise import OPERATORS

_NUMBERS = (0.5, 2.0, -1.5, 3.0)
_BITS = (1, 3, 6)
"""Numbers that bits are combined with."""
_PLACES = (1, 2, 4)
"""Numbers that bits are shifted by."""
_NUMBERS_OF = {
    ("pow", "input"): (2.0, 0.5),
    ("pow", "exponent"): (2.0, 3.0, 0.5, -1.0),
    ("lerp", "weight"): (0.25, 0.5, 0.75),
    ("masked_fill", "value"): (0.0, 1.0, -1e4),
    ("where", "input"): (0.0, 1.0, -1.0),
    ("where", "other"): (0.0, 1.0, -1e4),
    **{(f"bitwise_{name}", "other"): _BITS for name in ("and", "or", "xor")},
    **{(f"bitwise_{side}_shift", "input"): _BITS for side in ("left", "right")},
    **{(f"bitwise_{side}_shift", "other"): _PLACES for side in ("left", "right")},
}
"""(operator, operand) -> numbers in its place, where they are not `_NUMBERS`."""

_FLOATS_ONLY = {
    # integers are whole and never nan
    *("floor", "ceil", "round", "trunc", "isnan"),
    # their attributes are fractions
    *("relu6", "hardtanh", "threshold", "clamp", "addcmul", "addcdiv"),
    # the number may not fit an integer; a negative exponent is refused when it is met
    *("masked_fill", "pow"),
}
_CONDITIONS = {"where": "condition", "masked_fill": "mask"}
"""Operator -> the operand that is bool."""
_SCALARS = {"masked_fill": "value"}
"""Operator -> the operand that has no dimensions."""


# Dtypes


def _together(maker: Maker, params: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields a dtype for each operand: one dtype for all, or for two operands mixed dtypes.

    A condition is always bool.
    """
    name = maker.operator.name
    takes_integers = name not in _FLOATS_ONLY
    condition = _CONDITIONS.get(name)
    free = sum(param != condition for param in params)
    dtypes = maker.dtypes if takes_integers else maker.space.floats
    dtype_pairs = [(dtype,) * free for dtype in dtypes]
    if len(params) == 2 and free == 2 and takes_integers:
        mixed = product(dtypes, repeat=2)
        dtype_pairs += [(a, b) for a, b in mixed if a != b and (a in INTEGERS or b in INTEGERS)]
    for one in dict.fromkeys(dtype_pairs):
        rest = iter(one)
        yield tuple("bool" if param == condition else next(rest) for param in params)


def _slot(maker: Maker, param: str, rank: int, dtype: str) -> Slot:
    name = maker.operator.name
    if name.startswith("bitwise") or _CONDITIONS.get(name) == param:
        return operand(param, rank, dtype, reads_inputs=rank > 0)
    if _SCALARS.get(name) == param:
        return operand(param, rank, dtype, reads_inputs=True)
    return operand(param, rank, dtype)


# Writers


def _pointwise(maker: Maker) -> Iterator[Form]:
    """Every way to give tensors or numbers as operands, with at least one tensor."""
    params = [p for p in maker.operator.params if p.kind is not ParamKind.ATTRIBUTE]
    kinds = (((True, False) if p.kind is ParamKind.TENSOR_OR_SCALAR else (True,)) for p in params)
    for are_tensors in product(*kinds):
        flagged = list(zip(params, are_tensors, strict=True))
        tensors = [p.name for p, is_tensor in flagged if is_tensor]
        numbers = [p.name for p, is_tensor in flagged if not is_tensor]
        if tensors:
            yield from _broadcast(maker, tensors, numbers)


def _broadcast(maker: Maker, tensors: Sequence[str], numbers: Sequence[str]) -> Iterator[Form]:
    name = maker.operator.name
    menus: dict[str, Menu] = {}
    for number in numbers:
        menus |= maker.menu(number, *_NUMBERS_OF.get((name, number), _NUMBERS))
    ranks_of = ((0,) if _SCALARS.get(name) == t else maker.ranks(0) for t in tensors)
    together = list(_together(maker, tensors))
    known: dict[object, tuple[ValueKind, ...]] = {}
    for ranks in product(*ranks_of):
        aligned = Aligned(ranks, maker.space.broadcast)
        for dtypes in together:
            slots = [_slot(maker, *slot) for slot in zip(tensors, ranks, dtypes, strict=True)]
            # Of their ranks, dtypes of results depend on nothing but which are 0
            alike = dtypes, tuple(map(bool, ranks))
            results = [ValueKind(max(ranks), kind.dtype) for kind in known.get(alike, ())]
            for form in maker.form(
                slots,
                aligned.operands,
                {**aligned.menus, **menus},
                axes=aligned.axes,
                results=tuple(results),
            ):
                known[alike] = form.results
                yield form


def _cast(maker: Maker) -> Iterator[Form]:
    """Forms of casts to the floats of the space, from every other dtype."""
    for fixed in maker.each("dtype"):
        if fixed["dtype"] not in maker.space.floats:
            continue
        for slot in maker.inputs(0):
            if slot.kind.dtype != fixed["dtype"]:
                yield from maker.form((slot,), always(sizes("s", slot.kind.rank)), fixed=fixed)


WRITERS: Mapping[str, Writer] = {op.name: _pointwise for op in OPERATORS} | {"to_dtype": _cast}
