"""Normalizations: shifts that they take back, and means over what they return."""

from math import prod

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.chain import sum_at
from kernelwright.programs.algebra.site import Site
from kernelwright.programs.dataflow import channel_axis, is_flat, normalized_axes, operands
from kernelwright.programs.program import Call, Ref


def cancelled_shift(site: Site) -> tuple[Ref, ...] | None:
    """Drop a value that is added to all elements of a group before its normalization: softmax(x +
    c), the bias of a convolution before an instance norm."""
    call = site.call
    if not call.has(Trait.IGNORES_SHIFT) or (axes := normalized_axes(site.flow, call)) is None:
        return None
    if call.op == "instance_norm" and call.arg("running_mean") is not None:
        return None
    index = site.lone_maker(call.arg("input"))
    before = None if index is None else site.flow.program.calls[index]
    value = None if before is None else _unshifted(site, before, axes[0])
    return None if value is None else site.emit_all(call.op, **{**dict(call.args), "input": value})


def _unshifted(site: Site, before: Call, axes: frozenset[int]) -> Ref | None:
    """The result of a call without the value that it adds evenly over the axes."""
    if before.has(Trait.SHIFTS):
        whole, rest = operands(site.flow, before)
        is_first = bool(whole) and (before.operator.commutes or whole[0] == before.arg("input"))
        is_scaled = before.arg("alpha") != 1 and whole[:1] != [before.arg("input")]
        is_even = all(is_flat(site.flow, other, before, axes) for other in rest)
        is_shift = len(whole) == 1 and is_first and is_even and not is_scaled
        keeps_dtype = is_shift and site.type_of(whole[0]).dtype == before.types[0].dtype
        return whole[0] if keeps_dtype else None
    channel = channel_axis(before)
    if channel is not None and before.arg("bias") is not None:
        is_window = before.operator.family == "convolution"
        is_batched = before.types[0].rank == len(site.shape(before.arg("weight")))
        if (is_batched or not is_window) and channel not in axes:
            return site.emit(before.op, **{**dict(before.args), "bias": None})
    return None


def mean_of_norm(site: Site) -> tuple[Ref, ...] | None:
    """The mean over positions of a group norm, from the means and variances of what it normalizes:
    nothing is normalized element by element. Of groups of one channel it would be the bias."""
    total = sum_at(site)
    index = None if total is None or total.op != "mean" else site.lone_maker(total.value)
    if total is None or index is None:
        return None
    norm = site.flow.program.calls[index]
    shape = norm.types[0].shape
    long = frozenset(axis for axis in range(2, len(shape)) if shape[axis] > 1)
    if norm.op != "group_norm" or norm.arg("num_groups") == shape[1] or not long:
        return None
    if not long <= total.axes or 0 in total.axes:
        return None
    normed = _mean_by_channel(site, norm)
    if 1 in total.axes:
        normed = site.emit("mean", input=normed, dim=(1,), keepdim=True)
    return (site.reshaped(normed, site.call.types[0].shape),)


def _mean_by_channel(site: Site, norm: Call) -> Ref:
    """(N, C): each channel's mean, in units of its group's deviation from the group's mean."""
    x, shape = norm.arg("input"), norm.types[0].shape
    batch, channels = shape[:2]
    groups = norm.arg("num_groups")
    means = site.emit("mean", input=x, dim=tuple(range(2, len(shape))))
    grouped = site.reshaped(means, (batch, groups, channels // groups))
    middle = site.emit("mean", input=grouped, dim=(2,), keepdim=True)
    flat = site.reshaped(x, (batch, groups, channels // groups * prod(shape[2:])))
    spread = site.emit("var", input=flat, dim=(2,), correction=0, keepdim=True)
    inverse = site.emit("rsqrt", input=site.emit("add", input=spread, other=norm.arg("eps")))
    mean = site.emit("sub", input=grouped, other=middle)
    mean = site.reshaped(site.emit("mul", input=mean, other=inverse), (batch, channels))
    if norm.arg("weight") is not None:
        mean = site.emit("mul", input=mean, other=norm.arg("weight"))
    if norm.arg("bias") is not None:
        mean = site.emit("add", input=mean, other=norm.arg("bias"))
    return mean
