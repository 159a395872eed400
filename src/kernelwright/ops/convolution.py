"""Convolutions and transposed convolutions."""

from collections.abc import Mapping
from math import prod
from typing import Any

from kernelwright.ops.operator import Bound, Numerics, Operator, Param, ParameterKind, TensorType
from kernelwright.ops.rules import INPUT, attribute, common, is_float, require, tensor
from kernelwright.ops.traits import Trait
from kernelwright.ops.windows import (
    Canonical,
    Sizes,
    SlidingWindow,
    convolved,
    extent,
    full,
    laid_out,
    spatial_sizes,
    spread_all,
    transposed,
)

_WEIGHT = tensor("weight")
_BIAS = tensor("bias", ParameterKind.OPTIONAL_TENSOR)
_GROUPS = attribute("groups", 1)


def _sizes(name: str, spatial: int, default: int, *domain: int) -> Param:
    return attribute(name, (default,) * spatial, *((value,) * spatial for value in domain))


def _check(b: Bound, in_channels: int, weight_in: int, out_channels: int) -> None:
    """The checks that convolutions and transposed convolutions share.

    Args:
        in_channels: channels of the input.
        weight_in: channels of the input by the weight and the groups.
        out_channels: channels of the result, which the bias must have.

    Raises:
        ValueError: channels, groups, dtypes or the bias do not fit.
    """
    x, weight, bias, groups = b["input"], b["weight"], b["bias"], b["groups"]
    dtype = common(x, weight) if bias is None else common(x, weight, bias)
    require(is_float(dtype), f"defined for floating-point tensors only, not {dtype}")
    require(in_channels == weight_in, f"{in_channels} channels meet a weight for {weight_in}")
    require(
        weight.shape[0] % groups == 0, f"weight of {weight.shape[0]} channels in {groups} groups"
    )
    require(
        bias is None or bias.shape == (out_channels,),
        f"bias of shape {getattr(bias, 'shape', None)} for {out_channels} channels",
    )


def _input(b: Bound, spatial: int) -> tuple[tuple[int, ...], int, Sizes, Sizes]:
    """(batch size as a tuple of one or none, channels, spatial sizes, kernel sizes)."""
    x, weight = b["input"], b["weight"]
    sizes = spatial_sizes(x, spatial)
    require(weight.rank == spatial + 2, f"weight of rank {weight.rank}, not {spatial + 2}")
    require(b["groups"] >= 1, f"{b['groups']} groups")
    return x.shape[: -spatial - 1], x.shape[-spatial - 1], sizes, weight.shape[2:]


def _padding(b: Bound, spatial: int, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Sizes:
    """The padding of both sides together, as numbers also for "same" and "valid"."""
    # The total is what matters: "same" may pad the two sides by different numbers.
    value = b["padding"]
    if not isinstance(value, str):
        return tuple(2 * p for p in full("padding", value, spatial, 0))
    require(value in ("same", "valid"), f"padding {value!r} is neither 'same' nor 'valid'")
    if value == "valid":
        return (0,) * spatial
    require(set(stride) == {1}, "padding 'same' needs stride 1")
    return tuple(extent(k, d) - 1 for k, d in zip(kernel, dilation, strict=True))


def _conv(spatial: int) -> Operator:
    def types(b: Bound) -> tuple[TensorType, ...]:
        batch, channels, sizes, kernel = _input(b, spatial)
        out_channels = b["weight"].shape[0]
        _check(b, channels, b["weight"].shape[1] * b["groups"], out_channels)
        stride = full("stride", b["stride"], spatial, 1)
        dilation = full("dilation", b["dilation"], spatial, 1)
        padding = _padding(b, spatial, kernel, stride, dilation)
        padded = tuple(n + p for n, p in zip(sizes, padding, strict=True))
        out_sizes = convolved(padded, SlidingWindow(kernel, stride, (0,) * spatial, dilation))
        return (laid_out(b["input"], (*batch, out_channels, *out_sizes), b["weight"]),)

    def flops(b: Bound, outputs: tuple[TensorType, ...]) -> int:
        return 2 * outputs[0].numel * int(prod(b["weight"].shape[1:]))

    name = f"conv{spatial}d"
    return Operator(
        name=name,
        family="convolution",
        call=f"F.{name}",
        params=(
            INPUT,
            _WEIGHT,
            _BIAS,
            _sizes("stride", spatial, 1, 1, 2),
            _sizes("padding", spatial, 0, 0, 1, 2),
            _sizes("dilation", spatial, 1, 1, 2),
            _GROUPS,
        ),
        types=types,
        flops=flops,
        numerics=Numerics.CONTRACTION,
        aten={f"aten.{name}.default": {}, f"aten.{name}.padding": {}},
        channel_dim=1,
        spatial=spatial,
        canonical=_spelled(spatial),
    )


def _spelled(spatial: int) -> Canonical:
    """The canonical spelling of a convolution: full tuples, and 0 for the padding "valid".

    The padding "same" stays, as it may pad the two sides differently.
    """
    spread_sizes = spread_all(spatial, "stride", "padding", "dilation")

    def canonical(overload: str, values: Mapping[str, Any]) -> dict[str, Any]:
        if values.get("padding") == "valid":
            values = {**values, "padding": 0}
        return spread_sizes(overload, values)

    return canonical


def _conv_transpose(spatial: int) -> Operator:
    def types(b: Bound) -> tuple[TensorType, ...]:
        batch, channels, sizes, kernel = _input(b, spatial)
        out_channels = b["weight"].shape[1] * b["groups"]
        _check(b, channels, b["weight"].shape[0], out_channels)
        window = SlidingWindow(
            kernel,
            full("stride", b["stride"], spatial, 1),
            full("padding", b["padding"], spatial, 0),
            full("dilation", b["dilation"], spatial, 1),
        )
        added = full("output_padding", b["output_padding"], spatial, 0)
        out_sizes = transposed(sizes, window, added)
        return (laid_out(b["input"], (*batch, out_channels, *out_sizes), b["weight"]),)

    def flops(b: Bound, _: tuple[TensorType, ...]) -> int:
        return 2 * int(b["input"].numel * prod(b["weight"].shape[1:]))

    name = f"conv_transpose{spatial}d"
    return Operator(
        name=name,
        family="convolution",
        call=f"F.{name}",
        params=(
            INPUT,
            _WEIGHT,
            _BIAS,
            _sizes("stride", spatial, 1, 1, 2),
            _sizes("padding", spatial, 0, 0, 1),
            _sizes("output_padding", spatial, 0, 0, 1),
            _GROUPS,
            _sizes("dilation", spatial, 1, 1, 2),
        ),
        types=types,
        flops=flops,
        numerics=Numerics.CONTRACTION,
        aten={f"aten.{name}.{'default' if spatial == 1 else 'input'}": {}},
        traits=frozenset({Trait.TRANSPOSED}),
        channel_dim=1,
        spatial=spatial,
        canonical=spread_all(spatial, "stride", "padding", "output_padding", "dilation"),
    )


OPERATORS: tuple[Operator, ...] = (
    *(_conv(spatial) for spatial in (1, 2, 3)),
    *(_conv_transpose(spatial) for spatial in (1, 2, 3)),
)
