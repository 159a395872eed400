"""Forms of losses and similarities: operands of one shape, classes, weights."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from kernelwright.ops.forms.form import Form, Menu, Shape, Slot
from kernelwright.ops.forms.maker import Maker, Writer, always, operand, parameter, sizes
from kernelwright.ops.loss import OPERATORS
from kernelwright.ops.operator import Domain
from kernelwright.ops.operator import ParameterKind as ParamKind
from kernelwright.ops.sizes import Var

Tensors = Sequence[tuple[Slot, Shape]]

_BATCH, _CLASSES, _WIDTH = Var("b"), Var("c"), Var("d")


def _reduced(
    maker: Maker, tensors: Tensors, optional: Tensors = (), menus: Mapping[str, Menu] | None = None
) -> Iterator[Form]:
    """Forms with every subset of the optional tensors, and with every reduction."""
    reductions = maker.space.domain(maker.operator, "reduction")
    for count in range(len(optional) + 1):
        for extras in combinations(optional, count):
            slots, shapes = zip(*tensors, *extras, strict=True)
            yield from maker.grouped("reduction", reductions, slots, always(*shapes), menus)


def _tensors(maker: Maker, rank: int, dtype: str) -> list[tuple[Slot, Shape]]:
    """The required operands, all of one shape. Targets that hold signs are program inputs."""
    operands = []
    for param in maker.operator.params:
        if param.kind is ParamKind.TENSOR:
            is_sign = maker.operator.domains.get(param.name) is Domain.SIGN
            slot = (parameter if is_sign else operand)(param.name, rank, dtype)
            operands.append((slot, sizes("s", rank)))
    return operands


def _alike(maker: Maker) -> Iterator[Form]:
    for rank in maker.ranks(1):
        for dtype in maker.space.floats:
            yield from _reduced(maker, _tensors(maker, rank, dtype))


def _binary(maker: Maker) -> Iterator[Form]:
    """Forms of binary cross-entropy, with a weight for each element.

    With logits there is also `pos_weight`, one number for each class of the last axis.
    """
    has_classes = any(p.name == "pos_weight" for p in maker.operator.params)
    for rank in maker.ranks(1):
        x = sizes("s", rank)
        for dtype in maker.space.floats:
            optional = [(parameter("weight", rank, dtype), x)]
            if has_classes:
                optional.append((parameter("pos_weight", 1, dtype), x[-1:]))
            yield from _reduced(maker, _tensors(maker, rank, dtype), optional)


def _classes(maker: Maker) -> Iterator[Form]:
    """Forms with scores (N, C, *rest) and classes (N, *rest).

    cross_entropy also takes probabilities (N, C, *rest).
    """
    takes_probabilities = maker.operator.name == "cross_entropy"
    for rank in maker.ranks(2):
        batch, *rest = sizes("s", rank - 1)
        x = (batch, _CLASSES, *rest)
        for dtype in maker.space.floats:
            scores = (operand("input", rank, dtype), x)
            weight = (parameter("weight", 1, dtype), (_CLASSES,))
            targets = [(parameter("target", rank - 1, "int64"), (batch, *rest))]
            if takes_probabilities:
                targets.append((operand("target", rank, dtype), x))
            for target in targets:
                yield from _reduced(maker, (scores, target), (weight,))


def _cosine_embedding(maker: Maker) -> Iterator[Form]:
    rows, row = (_BATCH, _WIDTH), (_BATCH,)
    for dtype in maker.space.floats:
        one, two = (operand(name, 2, dtype) for name in ("input1", "input2"))
        tensors = ((one, rows), (two, rows), (parameter("target", 1, dtype), row))
        yield from _reduced(maker, tensors)


def _similar(maker: Maker) -> Iterator[Form]:
    for rank in maker.ranks(1):
        has_dim = any(p.name == "dim" for p in maker.operator.params)
        menus = maker.menu("dim", *range(rank)) if has_dim else {}
        for dtype in maker.space.floats:
            slots, shapes = zip(*_tensors(maker, rank, dtype), strict=True)
            yield from maker.form(slots, always(*shapes), menus)


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys((op.name for op in OPERATORS), _alike),
    "binary_cross_entropy": _binary,
    "binary_cross_entropy_with_logits": _binary,
    "cross_entropy": _classes,
    "nll_loss": _classes,
    "cosine_embedding_loss": _cosine_embedding,
    "cosine_similarity": _similar,
    "pairwise_distance": _similar,
}
