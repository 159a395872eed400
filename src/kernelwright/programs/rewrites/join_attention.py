"""Attention that is spelled out as two products with a softmax between, as one call."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch

from kernelwright.ops.traits import Trait
from kernelwright.programs.build import Builder, dead_code
from kernelwright.programs.dataflow import Dataflow, axes_of, rounds_quotient
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.programs.reference import run
from kernelwright.programs.rewrites.rewrite import WIDE_HEAD, map_refs_in

_PRODUCTS = {"matmul": "other", "bmm": "mat2"}
"""Product -> the name of its second factor."""
MAX_FILL = -1e9
"""A fill value at or below this number counts as a mask: softmax gives the key probability 0."""
FILL = -1e30
"""The number that an additive mask uses in place of a finite fill. Adding this number rounds every
score to the number itself, in float64 too. So a row that keeps no key has equal probabilities, as
in the original. No later mask may change these scores."""
MAX_MASK_ELEMENTS = 1 << 25
"""A mask that no input decides is computed, to see whether it is causal, up to this size."""

Renamed = Callable[[Ref], Ref]
"""A value of the old program -> the same value of the new one."""


@dataclass(frozen=True, slots=True)
class _Mask:
    """The keys that a row keeps, or a tensor that is added to scores."""

    value: Ref
    keeps: bool | None = None
    """The mask is true where a key is kept (True), or where it is left out (False). None: the
    tensor is added."""
    fill: float = -inf
    """The score of a key that is left out. An additive mask keeps the default."""


@dataclass(frozen=True, slots=True)
class _Attention:
    """softmax(scale * (query * query_factors) @ keys_transposed, masked) @ value."""

    query: Ref
    keys_transposed: Ref
    """The keys, (.., E, S)."""
    value: Ref
    scale: float = 1.0
    masks: tuple[_Mask, ...] = ()
    query_factors: tuple[Ref, ...] = ()
    """Tensors that multiply the scores row by row. They multiply the query instead."""
    is_causal: bool = False
    """The masks together leave out the keys after a query, as `is_causal` does."""


def join_attention(program: Program) -> Program:
    """The program with `scaled_dot_product_attention` in the place of products with a softmax
    between, where nothing else reads scores or probabilities. Then no kernel stores the scores.

    Where -inf masks every key of a row, the original returns NaN and the attention call returns 0.
    """
    flow = Dataflow(program)
    attentions = {i: _attention(flow, i) for i in range(len(program.calls))}
    if not any(attentions.values()):
        return program
    builder = Builder()
    refs = {value.name: builder.input(value.type, value.init) for value in program.inputs}
    for i, call in enumerate(program.calls):
        if (attention := attentions[i]) is not None:
            results = _emit(builder, attention, lambda ref: refs[ref.name])
        else:
            results = builder.call(call.op, **map_refs_in(dict(call.args), lambda r: refs[r.name]))
        refs.update(zip(call.outputs, results, strict=True))
    return dead_code(builder.program([refs[name] for name in program.outputs]))


def _attention(flow: Dataflow, index: int) -> _Attention | None:
    """The attention whose last product is this call; None where it is none."""
    call = flow.program.calls[index]
    probabilities = _only_read_by(flow, call.arg("input"), index) if call.op in _PRODUCTS else None
    if probabilities is None or flow.program.calls[probabilities].op != "softmax":
        return None
    softmax, value = flow.program.calls[probabilities], call.arg(_PRODUCTS[call.op])
    rank = softmax.types[0].rank
    if axes_of(softmax.arg("dim"), rank) != (rank - 1,):
        return None
    attention = _traced(flow, softmax.arg("input"), probabilities, value)
    if attention is None or not _fits_one_call(flow, attention, softmax, call):
        return None
    return replace(attention, is_causal=_is_causal(flow.program, attention, softmax.types[0].shape))


def _traced(flow: Dataflow, scores: Any, reader: int, value: Ref) -> _Attention | None:
    """Walk back from the input of the softmax to the product of queries and keys, and collect
    scales and masks. None where another operator lies between, or where a scale follows a mask."""
    index = _only_read_by(flow, scores, reader)
    if index is None:
        return None
    call = flow.program.calls[index]
    if call.op in _PRODUCTS:
        return _Attention(call.arg("input"), call.arg(_PRODUCTS[call.op]), value)
    if call.has(Trait.SCALES):
        attention = _traced(flow, call.arg("input"), index, value)
        # A scale after a mask would scale the mask too, which one attention call cannot express.
        return None if attention is None or attention.masks else _scaled(flow, attention, call)
    for inner, mask in _masked(flow, call):
        attention = _traced(flow, inner, index, value)
        if attention is not None:
            return replace(attention, masks=(*attention.masks, mask))
    return None


def _scaled(flow: Dataflow, attention: _Attention, call: Call) -> _Attention | None:
    """The attention with the factor by which a call multiplies or divides the scores."""
    by = call.arg("other")
    if isinstance(by, Ref):
        factor, query = (flow.program.type_of(ref.name) for ref in (by, attention.query))
        is_same = factor.dtype == query.dtype and factor.shape[-2:] in ((), (1,), (1, 1))
        is_factor = call.op == "mul" and is_same and factor.rank <= query.rank
        if not is_factor:
            return None
        return replace(attention, query_factors=(*attention.query_factors, by))
    if not by or rounds_quotient(call):
        return None
    scale = attention.scale * by if call.op == "mul" else attention.scale / by
    return replace(attention, scale=scale)


def _masked(flow: Dataflow, call: Call) -> list[tuple[Any, _Mask]]:
    """The scores that a call masks, and the mask."""
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
    return value if not isinstance(value, Ref) and value <= MAX_FILL else None


def _only_read_by(flow: Dataflow, value: Any, reader: int) -> int | None:
    """The operator call whose result nothing but the reader reads."""
    index = flow.maker(value)
    if index is None or flow.program.calls[index].is_extern:
        return None
    return index if flow.is_only_read_by(index, reader) else None


def _fits_one_call(flow: Dataflow, attention: _Attention, softmax: Call, call: Call) -> bool:
    """All factors have the batches and the dtype of the result, no mask repeats scores, a number
    that masks comes last, and heads fit on chip."""
    factors = attention.query, attention.keys_transposed, attention.value
    types = query, keys, value = [flow.program.type_of(factor.name) for factor in factors]
    rank, dtype = call.types[0].rank, call.types[0].dtype
    is_alike = all(
        factor.rank == rank
        and factor.dtype == dtype
        and factor.shape[:-2] == call.types[0].shape[:-2]
        for factor in types
    )
    scores = (*query.shape[:-1], keys.shape[-1])
    is_whole = softmax.types[0].shape == scores and softmax.types[0].dtype == dtype
    # A finite fill overwrites scores, and addition cannot undo FILL. So a finite fill must come
    # last, after masks that are added.
    *before, last = attention.masks or (None,)
    fills_last = all(mask.fill == -inf for mask in before) and (
        last is None or last.fill == -inf or all(mask.keeps is None for mask in before)
    )
    is_narrow = max(query.shape[-1], value.shape[-1]) <= WIDE_HEAD
    return is_alike and rank >= 3 and is_whole and fills_last and is_narrow


def _is_causal(program: Program, attention: _Attention, scores: tuple[int, ...]) -> bool:
    """The masks are a triangle that no input decides. Kernels then skip blocks of keys."""
    # A triangle that an input decides may differ in the next call, so only constants count.
    masks, triangle = attention.masks, scores[-2:]
    if not masks or triangle[0] * triangle[1] > MAX_MASK_ELEMENTS:
        return False
    names = tuple(mask.value.name for mask in masks)
    alone = dead_code(Program(program.inputs, program.calls, names))
    read = {name for call in alone.calls for name in call.refs()} | set(alone.outputs)
    if read & {value.name for value in program.inputs} or any(c.is_random for c in alone.calls):
        return False
    kept = torch.ones(triangle, dtype=torch.bool)
    for mask, value in zip(masks, run(Program((), alone.calls, alone.outputs), []), strict=True):
        if any(size != 1 for size in value.shape[:-2]):
            return False
        is_left_out = value <= MAX_FILL if mask.keeps is None else value != mask.keeps
        if mask.keeps is None and bool((value[~is_left_out] != 0).any()):
            return False  # a bias
        kept &= ~is_left_out.reshape(is_left_out.shape[-2:])
    return torch.equal(kept, torch.ones(triangle).tril().bool())


def _emit(builder: Builder, attention: _Attention, new: Renamed) -> tuple[Ref, ...]:
    query = new(attention.query)
    for factor in attention.query_factors:
        (query,) = builder.call("mul", input=query, other=new(factor))
    (key,) = builder.call("transpose", input=new(attention.keys_transposed), dim0=-2, dim1=-1)
    values: dict[str, Any] = {"is_causal": True} if attention.is_causal else {}
    if not attention.is_causal and (mask := _mask(builder, attention, new)) is not None:
        values["attn_mask"] = mask
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
    """The mask as a term of the scores, in their dtype: 0 where a key is kept, the fill
    elsewhere."""
    added = new(mask.value)
    if mask.keeps is not None:
        # float16 holds no number as low as MAX_FILL: the original fills with -inf there.
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
