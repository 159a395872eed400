"""Rules that merge constant factors and shifts, or fold them into the weights of a product."""

from math import isfinite, prod
from typing import Any

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.site import Site, is_float
from kernelwright.programs.dataflow import channel_axis, rounds_quotient
from kernelwright.programs.program import Call, Ref

_LEAST, _MOST = 1e-30, 1e30
"""Magnitudes of merged factors that no float32 computation rounds away or overflows by."""

MANY_OUTPUTS = 32
"""For each weight, from where scaling the weights costs nothing: a kernel that reads the result for
another reason scales it for nothing too."""


def merged_numbers(site: Site) -> tuple[Ref, ...] | None:
    """x * a * b, x / a / b, x + a - b: one factor, one shift."""
    last = _factor(site.call), _shift(site.call)
    index = site.lone_maker(site.call.arg("input")) if any(v is not None for v in last) else None
    if index is None or not is_float(site.call.types[0]):
        return None
    before = site.flow.program.calls[index]
    first = _factor(before), _shift(before)
    value = before.arg("input") if first != (None, None) else None
    if last[0] is not None and first[0] is not None:
        factor = first[0] * last[0]
        return (_scaled(site, value, factor),) if _LEAST < abs(factor) < _MOST else None
    if last[1] is not None and first[1] is not None:
        return (site.emit("add", input=value, other=first[1] + last[1]),)
    return None


def _scaled(site: Site, value: Any, factor: float) -> Ref:
    return site.emit("mul", input=value, other=factor)


def _factor(call: Call) -> float | None:
    """The number that a call multiplies its input by."""
    if not call.has(Trait.SCALES) or not isinstance(call.arg("input"), Ref):
        return None
    number = call.arg("other")
    if isinstance(number, Ref) or number == 0 or not isfinite(number):
        return None
    if rounds_quotient(call):
        return None
    return 1 / number if call.op == "div" else float(number)


def _shift(call: Call) -> float | None:
    """The number that a call adds to its input."""
    if not call.has(Trait.SHIFTS) or not isinstance(call.arg("input"), Ref):
        return None
    number = call.arg("other")
    if isinstance(number, Ref) or not isfinite(number):
        return None
    return float(number * call.arg("alpha") * (1 if call.op == "add" else -1))


def own_multiple(site: Site) -> tuple[Ref, ...] | None:
    """x + x, a * x + x, a * x - b * x: one factor."""
    call = site.call
    if not call.has(Trait.SHIFTS) or call.arg("alpha") != 1 or not is_float(call.types[0]):
        return None
    (one, a), (other, b) = (_multiple(site, call.arg(name)) for name in ("input", "other"))
    if one is None or one != other:
        return None
    factor = a + b if call.op == "add" else a - b
    return (_scaled(site, one, factor),) if _LEAST < abs(factor) < _MOST else None


def _multiple(site: Site, value: Any) -> tuple[Ref | None, float]:
    """(tensor, number) whose product the operand is."""
    if not isinstance(value, Ref):
        return None, 1.0
    before = site.maker(value)
    factor = None if before is None else _factor(before)
    return (value, 1.0) if before is None or factor is None else (before.arg("input"), factor)


def folded_scale(site: Site) -> tuple[Ref, ...] | None:
    """Folds a factor by channel, or a batch norm in eval mode, into the weights of a product.

    The product is a linear layer or a convolution. It must have few weights for its outputs,
    because the scaled weights are computed anew in each call.
    """
    scaling = _of_batch_norm(site) or _of_factor(site)
    if scaling is None or (index := site.lone_maker(site.call.arg("input"))) is None:
        return None
    product = site.flow.program.calls[index]
    channel = channel_axis(product)
    # A batch norm has its channels in dimension 1. The shape of a factor says the dimension.
    if channel is None or (site.call.op == "batch_norm" and channel != 1):
        return None
    if prod(site.shape(product.arg("weight"))) * MANY_OUTPUTS > product.types[0].numel:
        return None
    factor, shift = scaling
    channels = product.types[0].shape[channel]
    if isinstance(factor, Ref):
        factor = _by_channel(site, factor, product, channels)
    if factor is None:
        return None
    values = dict(product.args)
    values["weight"] = _scaled_weight(site, product, factor)
    bias = product.arg("bias")
    if bias is not None:
        bias = site.emit("mul", input=bias, other=factor)
    if shift is not None:
        bias = shift if bias is None else site.emit("add", input=bias, other=shift)
    return (site.emit(product.op, **{**values, "bias": bias}),)


def _of_factor(site: Site) -> tuple[Any, None] | None:
    number = _factor(site.call)
    if number is not None:
        return number, None
    other = site.call.arg("other") if site.call.op == "mul" else None
    is_factor = isinstance(other, Ref) and isinstance(site.call.arg("input"), Ref)
    return (other, None) if is_factor else None


def _of_batch_norm(site: Site) -> tuple[Ref, Ref] | None:
    """(factor, shift) by channel of a batch norm in eval mode. The calls are emitted at once; if
    the rule fails later, they are dropped together with the site."""
    call = site.call
    if call.op != "batch_norm" or call.arg("training"):
        return None
    variance = site.emit("add", input=call.arg("running_var"), other=call.arg("eps"))
    factor = site.emit("rsqrt", input=variance)
    if call.arg("weight") is not None:
        factor = site.emit("mul", input=factor, other=call.arg("weight"))
    shift = site.emit("neg", input=site.emit("mul", input=call.arg("running_mean"), other=factor))
    if call.arg("bias") is not None:
        shift = site.emit("add", input=shift, other=call.arg("bias"))
    return factor, shift


def _by_channel(site: Site, factor: Ref, product: Call, channels: int) -> Ref | None:
    """A factor as (channels,); None where it is not one number for each."""
    if site.shape(factor) == (channels,) and site.call.op == "batch_norm":
        return factor
    rank, axis = product.types[0].rank, channel_axis(product)
    shape = site.shape(factor)
    full = (1,) * (rank - len(shape)) + shape
    wanted = tuple(channels if i == axis else 1 for i in range(rank))
    return site.reshaped(factor, (channels,)) if full == wanted else None


def _scaled_weight(site: Site, product: Call, factor: Any) -> Ref:
    """Weights (out, in, ...), or (in, out / groups, ...) of a transposed convolution."""
    weight: Ref = product.arg("weight")
    if not isinstance(factor, Ref):
        return site.emit("mul", input=weight, other=factor)
    shape = site.shape(weight)
    if not product.has(Trait.TRANSPOSED):
        column = site.reshaped(factor, (shape[0], *(1,) * (len(shape) - 1)))
        return site.emit("mul", input=weight, other=column)
    # The output channel is (group, column) there: the groups are rows of the weight.
    groups = product.arg("groups")
    split = site.reshaped(weight, (groups, shape[0] // groups, *shape[1:]))
    column = site.reshaped(factor, (groups, 1, shape[1], *(1,) * (len(shape) - 2)))
    return site.reshaped(site.emit("mul", input=split, other=column), shape)
