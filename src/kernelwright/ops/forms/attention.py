"""Forms of attention: with or without heads, causal or masked, heads shared by groups."""

from collections.abc import Iterator, Mapping

from kernelwright.ops.forms.form import Choice, Form, Shape
from kernelwright.ops.forms.maker import (
    Attributes,
    Maker,
    Writer,
    always,
    operand,
)
from kernelwright.ops.sizes import Var

_BATCH, _HEADS = Var("b"), Var("h")
_QUERIES, _KEYS, _WIDTH, _VALUES = Var("l"), Var("s"), Var("e"), Var("v")
_SCORES = (_QUERIES, _KEYS)
_SHARED_BY = (2, 4)
"""Heads of queries to one head of keys and values."""


def _operands(*before: Var) -> tuple[Shape, Shape, Shape]:
    return (
        (*before, _QUERIES, _WIDTH),
        (*before, _KEYS, _WIDTH),
        (*before, _KEYS, _VALUES),
    )


def _attention(maker: Maker) -> Iterator[Form]:
    for rank in maker.ranks(3, 4):
        before = (_BATCH, _HEADS)[: rank - 2]
        for dtype in maker.space.floats:
            slots = [operand(name, rank, dtype) for name in ("query", "key", "value")]
            yield from maker.form(slots, always(*_operands(*before)))
            for mask, shape in ((dtype, _SCORES), ("bool", _SCORES), (dtype, (*before, *_SCORES))):
                masked = operand("attn_mask", len(shape), mask, reads_inputs=True)
                operands = always(*_operands(*before), shape)
                yield from maker.form([*slots, masked], operands, fixed={"is_causal": False})
            if rank == 4:
                menus = maker.menu("queries_a_head", *_SHARED_BY)
                yield from maker.form(slots, _grouped, menus, {"enable_gqa": True})


def _grouped(choice: Choice) -> tuple[tuple[Shape, ...], Attributes]:
    query, *others = _operands(_BATCH, _HEADS)
    heads = _HEADS * choice["queries_a_head"]
    return ((_BATCH, heads, *query[2:]), *others), {}


WRITERS: Mapping[str, Writer] = {"scaled_dot_product_attention": _attention}
