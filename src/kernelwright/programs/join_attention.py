"""Attention that is spelled out as two products with a softmax between, as one call."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from kernelwright.programs.build import Builder, dead_code
from kernelwright.programs.dataflow import Dataflow, axes_of
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.programs.rewrite import WIDE_HEAD, map_refs_in

_PRODUCTS = {"matmul": "other", "bmm": "mat2"}
"""Product -> the name of its second factor."""
LEAST_FILL = -1e9
"""A number that masks: no share is left for a score as low as this."""
FILL = -1e30
"""What is added for such a number. Scores, and what was added to them before, are lost beside it,
in float64 too. So a row that keeps no key has equal shares, as in the original, which sets all its
scores to one number. Nothing else may change scores after that."""

Renamed = Callable[[Ref], Ref]
"""A value of the old program -> the same value of the new one."""


@dataclass(frozen=True, slots=True)
class _Mask:
    """What keys a row keeps, or a tensor that is added to scores."""

    value: Ref
    keeps: bool | None = None
    """The mask is true where a key is kept (True), or where it is left out (False). None: the
    tensor is added."""
    fill: float = -inf
    """The score of a key that is left out."""


@dataclass(frozen=True, slots=True)
class _Attention:
    """softmax(scale * (query * weights) @ keys_transposed, masked) @ value."""

    query: Ref
    keys_transposed: Ref
    """The keys, (.., E, S)."""
    value: Ref
    scale: float = 1.0
    masks: tuple[_Mask, ...] = ()
    weights: tuple[Ref, ...] = ()
    """Factors of queries, each the same for all keys and along a query."""


def join_attention(program: Program) -> Program:
    """The program with `scaled_dot_product_attention` in the place of products with a softmax
    between, where nothing else reads scores or shares. Then no kernel needs to store the scores.

    A row that keeps no key is NaN in the original where the fill is -inf, and 0 in PyTorch's
    attention.
    """
    flow = Dataflow(program)
    attentions = {i: _attention(flow, i) for i in range(len(program.calls))}
    if not any(attentions.values()):
        return program
    builder = Builder()
    refs = {value.name: builder.input(value.type, value.init) for value in program.inputs}
    for i, call in enumerate(program.calls):
        if (attention := attentions[i]) is not None:
            made = _emit(builder, attention, lambda ref: refs[ref.name])
        else:
            made = builder.call(call.op, **map_refs_in(dict(call.args), lambda r: refs[r.name]))
        refs.update(zip(call.outputs, made, strict=True))
    return dead_code(builder.program([refs[name] for name in program.outputs]))


def _attention(flow: Dataflow, index: int) -> _Attention | None:
    """The attention whose last product is this call; None where it is none."""
    call = flow.program.calls[index]
    shares = _only_read_by(flow, call.arg("input"), index) if call.op in _PRODUCTS else None
    if shares is None or flow.program.calls[shares].op != "softmax":
        return None
    softmax, value = flow.program.calls[shares], call.arg(_PRODUCTS[call.op])
    rank = softmax.types[0].rank
    if axes_of(softmax.arg("dim"), rank) != (rank - 1,):
        return None
    found = _scores(flow, softmax.arg("input"), shares, value)
    return found if found and _fits_one_call(flow, found, softmax, call) else None


def _scores(flow: Dataflow, scores: Any, reader: int, value: Ref) -> _Attention | None:
    """Back from the scores to the product of queries and keys. Numbers scale the product before
    anything is masked."""
    index = _only_read_by(flow, scores, reader)
    if index is None:
        return None
    call = flow.program.calls[index]
    if call.op in _PRODUCTS:
        return _Attention(call.arg("input"), call.arg(_PRODUCTS[call.op]), value)
    if call.op in ("mul", "div"):
        found = _scores(flow, call.arg("input"), index, value)
        return None if found is None or found.masks else _scaled(flow, found, call)
    for inner, mask in _masked(flow, call):
        found = _scores(flow, inner, index, value)
        if found is not None:
            return replace(found, masks=(*found.masks, mask))
    return None


def _scaled(flow: Dataflow, found: _Attention, call: Call) -> _Attention | None:
    """The attention with the factor by which a call multiplies or divides the scores."""
    by = call.arg("other")
    if isinstance(by, Ref):
        made, query = flow.program.type_of(by.name), flow.program.type_of(found.query.name)
        is_same = made.dtype == query.dtype and made.shape[-2:] in ((), (1,), (1, 1))
        is_weight = call.op == "mul" and is_same and made.rank <= query.rank
        return replace(found, weights=(*found.weights, by)) if is_weight else None
    if not by or (call.op == "div" and call.arg("rounding_mode")):
        return None
    return replace(found, scale=found.scale * by if call.op == "mul" else found.scale / by)


def _masked(flow: Dataflow, call: Call) -> list[tuple[Any, _Mask]]:
    """What a call may mask, and how."""
    if call.op == "masked_fill" and (fill := _fill(flow, call.arg("value"))) is not None:
        return [(call.arg("input"), _Mask(call.arg("mask"), keeps=False, fill=fill))]
    if call.op == "where":
        condition, first, second = (call.arg(name) for name in ("condition", "input", "other"))
        return [
            (inner, _Mask(condition, keeps=keeps, fill=fill))
            for keeps, inner, other in ((True, first, second), (False, second, first))
            if (fill := _fill(flow, other)) is not None
        ]
    if call.op == "add" and call.arg("alpha") == 1:
        both = call.arg("input"), call.arg("other")
        return [(i, _Mask(o)) for i, o in (both, both[::-1]) if isinstance(o, Ref)]
    return []


def _fill(flow: Dataflow, value: Any) -> float | None:
    """A number that masks, also as a tensor without dimensions that the program makes."""
    if isinstance(value, Ref):
        index = flow.maker(value)
        call = None if index is None else flow.program.calls[index]
        if call is None or call.op != "full" or call.types[0].rank:
            return None
        value = call.arg("fill_value")
    return value if not isinstance(value, Ref) and value <= LEAST_FILL else None


def _only_read_by(flow: Dataflow, value: Any, reader: int) -> int | None:
    """The operator call whose result nothing but the reader reads."""
    index = flow.maker(value)
    if index is None or flow.program.calls[index].is_extern:
        return None
    return index if flow.is_only_read_by(index, reader) else None


def _fits_one_call(flow: Dataflow, found: _Attention, softmax: Call, call: Call) -> bool:
    """All factors have the batches and the dtype of the result, no mask repeats scores, a number
    that masks comes last, and heads fit on chip."""
    factors = found.query, found.keys_transposed, found.value
    types = query, keys, value = [flow.program.type_of(factor.name) for factor in factors]
    rank, dtype = call.types[0].rank, call.types[0].dtype
    is_alike = all(
        made.rank == rank and made.dtype == dtype and made.shape[:-2] == call.types[0].shape[:-2]
        for made in types
    )
    scores = (*query.shape[:-1], keys.shape[-1])
    is_whole = softmax.types[0].shape == scores and softmax.types[0].dtype == dtype
    *before, last = found.masks or (None,)
    fills_last = all(mask.fill == -inf for mask in before) and (
        last is None or last.fill == -inf or all(mask.keeps is None for mask in before)
    )
    is_narrow = max(query.shape[-1], value.shape[-1]) <= WIDE_HEAD
    return is_alike and rank >= 3 and is_whole and fills_last and is_narrow


def _emit(builder: Builder, attention: _Attention, new: Renamed) -> tuple[Ref, ...]:
    query = new(attention.query)
    for weight in attention.weights:
        (query,) = builder.call("mul", input=query, other=new(weight))
    (key,) = builder.call("transpose", input=new(attention.keys_transposed), dim0=-2, dim1=-1)
    mask = _mask(builder, attention, new)
    values = {} if mask is None else {"attn_mask": mask}
    return builder.call(
        "scaled_dot_product_attention",
        query=query,
        key=key,
        value=new(attention.value),
        scale=attention.scale,
        **values,
    )


def _mask(builder: Builder, attention: _Attention, new: Renamed) -> Ref | None:
    """The masks as one: booleans where all only leave out keys, else a tensor that is added."""
    masks = attention.masks
    if all(mask.keeps is not None and mask.fill == -inf for mask in masks):
        return _folded(builder, "bitwise_and", [_kept(builder, mask, new) for mask in masks])
    dtype = builder.types[new(attention.query).name].dtype
    return _folded(builder, "add", [_added(builder, mask, dtype, new) for mask in masks])


def _kept(builder: Builder, mask: _Mask, new: Renamed) -> Ref:
    """True where a key is kept."""
    kept = new(mask.value)
    if not mask.keeps:
        (kept,) = builder.call("bitwise_not", input=kept)
    return _of_rank_two(builder, kept)


def _added(builder: Builder, mask: _Mask, dtype: str, new: Renamed) -> Ref:
    """What the mask adds to scores, in their dtype: 0 where a key is kept, the fill elsewhere."""
    added = new(mask.value)
    if mask.keeps is not None:
        fill = -inf if mask.fill == -inf or dtype == "float16" else FILL
        inside, outside = (0.0, fill) if mask.keeps else (fill, 0.0)
        (added,) = builder.call("where", condition=added, input=inside, other=outside)
    if builder.types[added.name].dtype != dtype:
        (added,) = builder.call("to_dtype", input=added, dtype=dtype)
    return _of_rank_two(builder, added)


def _of_rank_two(builder: Builder, mask: Ref) -> Ref:
    """Some of PyTorch's kernels for attention refuse masks of fewer dimensions."""
    while builder.types[mask.name].rank < 2:
        (mask,) = builder.call("unsqueeze", input=mask, dim=0)
    return mask


def _folded(builder: Builder, op: str, values: list[Ref]) -> Ref | None:
    if not values:
        return None
    total, *others = values
    for other in others:
        (total,) = builder.call(op, input=total, other=other)
    return total
