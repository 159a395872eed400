"""Forms of normalizations: with and without weights, by statistics of the batch or given ones."""

from collections.abc import Iterator, Mapping

from kernelwright.ops.forms.form import Choice, Form, Shape
from kernelwright.ops.forms.maker import (
    Attributes,
    Maker,
    Operands,
    Writer,
    always,
    operand,
    parameter,
    sizes,
)

_STATISTICS = ("running_mean", "running_var")
_AFFINE = ("weight", "bias")
_MOST_NORMALIZED = 3
"""Trailing dimensions: more are not seen in models."""


def _trailing(maker: Maker) -> Iterator[Form]:
    """Forms of layer_norm and rms_norm, over the last dimensions."""
    names = [p.name for p in maker.operator.params if p.name in _AFFINE]
    for slot in maker.inputs(1, maker.space.floats):
        x = sizes("s", slot.kind.rank)
        for count in range(1, min(slot.kind.rank, _MOST_NORMALIZED) + 1):
            over = x[-count:]
            operands = always(x, over, over, normalized_shape=over)
            affine = [parameter(name, count, slot.kind.dtype) for name in names]
            for num_affine in range(len(affine) + 1):
                yield from maker.form((slot, *affine[:num_affine]), operands)


def _channels(
    maker: Maker,
    low: int,
    *given: str,
    affine: tuple[bool, ...] = (False, True),
    fixed: Attributes | None = None,
) -> Iterator[Form]:
    """Forms over (N, C, ...) with parameters of C values.

    Args:
        low: lowest rank.
        given: parameters that every form has.
        affine: whether forms have a weight and a bias: both kinds, or one of them.
        fixed: attributes with one value.
    """
    for rank in maker.ranks(low):
        for dtype in maker.space.floats:
            for is_affine in affine:
                names = (*given, *(_AFFINE if is_affine else ()))
                slots = operand("input", rank, dtype), *(parameter(n, 1, dtype) for n in names)
                x = sizes("s", rank)
                yield from maker.form(slots, always(x, *((x[1],),) * len(names)), fixed=fixed)


def _group_norm(maker: Maker) -> Iterator[Form]:
    for slot in maker.inputs(2, maker.space.floats):
        affine = [parameter(name, 1, slot.kind.dtype) for name in _AFFINE]
        for slots in ((slot,), (slot, *affine)):
            yield from maker.form(slots, _in_groups(slot.kind.rank))


def _in_groups(rank: int) -> Operands:
    batch, of_group, *space = sizes("s", rank)

    def operands(choice: Choice) -> tuple[tuple[Shape, ...], Attributes]:
        channels = of_group * choice["num_groups"]
        return ((batch, channels, *space), (channels,), (channels,)), {}

    return operands


def _batch_norm(maker: Maker) -> Iterator[Form]:
    yield from _channels(maker, 2, *_STATISTICS, fixed={"training": False})
    yield from _channels(maker, 2, fixed={"training": True})


def _batch_norm_train(maker: Maker) -> Iterator[Form]:
    yield from _channels(maker, 2, *_STATISTICS, affine=(True,))


def _instance_norm(maker: Maker) -> Iterator[Form]:
    yield from _channels(maker, 3, *_STATISTICS, fixed={"use_input_stats": False})
    yield from _channels(maker, 3, fixed={"use_input_stats": True})


WRITERS: Mapping[str, Writer] = {
    "layer_norm": _trailing,
    "rms_norm": _trailing,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "batch_norm": _batch_norm,
    "batch_norm_train": _batch_norm_train,
}
