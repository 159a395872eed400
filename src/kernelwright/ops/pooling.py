"""Windowed and adaptive pooling, and interpolation."""

from collections.abc import Mapping
from math import floor, prod
from typing import Any

from kernelwright.ops.operator import REQUIRED, Bound, Numerics, Operator, TensorType
from kernelwright.ops.rules import INPUT, SELF, attribute, float_dtype, require
from kernelwright.ops.traits import Trait
from kernelwright.ops.windows import (
    Canonical,
    SlidingWindow,
    full,
    laid_out,
    pooled,
    spatial_sizes,
    spread_all,
)

# Windowed


def _pool_types(b: Bound, spatial: int, keeps_layout: bool) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    float_dtype(b)
    sizes = spatial_sizes(x, spatial)
    kernel = full("kernel_size", b["kernel_size"], spatial, 1)
    stride = full("stride", b["stride"], spatial, 1)
    padding = full("padding", b["padding"], spatial, 0)
    dilation = full("dilation", b.get("dilation", 1), spatial, 1)
    # avg_pool3d alone compares the kernel with the input as it is, without the padding.
    if spatial == 3 and "dilation" not in b:
        for n, k in zip(sizes, kernel, strict=True):
            require(n >= k, f"size {n} is below kernel size {k}, padding not counted")
    out_sizes = pooled(sizes, SlidingWindow(kernel, stride, padding, dilation), b["ceil_mode"])
    require(b.get("divisor_override") != 0, "divisor_override may not be 0")
    shape = (*x.shape[:-spatial], *out_sizes)
    return (laid_out(x, shape) if keeps_layout else TensorType(shape, x.dtype),)


def _pool_flops(b: Bound, outputs: tuple[TensorType, ...]) -> int:
    return outputs[0].numel * prod(b["kernel_size"])


def _spelled(spatial: int) -> Canonical:
    """The canonical spelling of a pool: full tuples, and the kernel size for an absent stride."""
    spread_sizes = spread_all(spatial, "kernel_size", "stride", "padding", "dilation")

    def canonical(overload: str, values: Mapping[str, Any]) -> dict[str, Any]:
        if values.get("stride") in (None, (), []):
            values = {**values, "stride": values.get("kernel_size")}
        return spread_sizes(overload, values)

    return canonical


def _windowed(kind: str, spatial: int) -> Operator:
    def same(value: int) -> tuple[int, ...]:
        return (value,) * spatial

    name = f"{kind}_pool{spatial}d"
    params = [
        INPUT,
        attribute("kernel_size", REQUIRED, same(2), same(3)),
        attribute("stride", REQUIRED, same(1), same(2)),
        attribute("padding", same(0), same(0), same(1)),
    ]
    if kind == "max":
        params.append(attribute("dilation", same(1), same(1), same(2)))
    params.append(attribute("ceil_mode", False, False, True))
    if kind == "avg":
        params.append(attribute("count_include_pad", True, True, False))
    if kind == "avg" and spatial > 1:
        params.append(attribute("divisor_override", None))
    # Eager PyTorch makes contiguous results of avg_pool3d; 1D images have no other layout.
    keeps_layout = kind == "max" or spatial == 2
    overloads = [f"aten.{name}.default"]
    if kind == "max":
        overloads.append(f"aten.{name}_with_indices.default")
    return Operator(
        name=name,
        family="pooling",
        call=f"F.{name}",
        params=tuple(params),
        types=lambda b: _pool_types(b, spatial, keeps_layout),
        flops=_pool_flops,
        numerics=Numerics.EXACT if kind == "max" else Numerics.REDUCTION,
        aten=dict.fromkeys(overloads, SELF),
        canonical=_spelled(spatial),
        spatial=spatial,
        traits=frozenset({Trait.AVERAGES_WINDOWS if kind == "avg" else Trait.LARGEST_OF_WINDOWS}),
    )


# Adaptive: windows that share the input out, global pooling where the output is 1


def _adaptive_types(b: Bound, spatial: int, keeps_layout: bool) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    float_dtype(b)
    sizes, wanted = spatial_sizes(x, spatial), b["output_size"]
    wanted = wanted if isinstance(wanted, tuple) else (wanted,) * spatial
    out_sizes = tuple(n if w is None else w for n, w in zip(sizes, wanted, strict=True))
    require(all(size >= 1 for size in out_sizes), f"output_size {out_sizes} may not be below 1")
    shape = (*x.shape[:-spatial], *out_sizes)
    return (laid_out(x, shape) if keeps_layout else TensorType(shape, x.dtype),)


def _adaptive_flops(b: Bound, outputs: tuple[TensorType, ...]) -> int:
    """One FLOP for each input, or for each output if there are more of these."""
    return max(int(b["input"].numel), outputs[0].numel)


def _adaptive(kind: str, spatial: int) -> Operator:
    name = f"adaptive_{kind}_pool{spatial}d"
    overloads = [f"aten.{name}.default"]
    if kind == "avg" and spatial > 1:
        overloads.append(f"aten._{name}.default")
    return Operator(
        name=name,
        family="pooling",
        call=f"F.{name}",
        params=(INPUT, attribute("output_size", REQUIRED, (1,) * spatial, (2,) * spatial)),
        types=lambda b: _adaptive_types(b, spatial, keeps_layout=spatial == 2),
        flops=_adaptive_flops,
        numerics=Numerics.EXACT if kind == "max" else Numerics.REDUCTION,
        aten=dict.fromkeys(overloads, SELF),
        canonical=spread_all(spatial, "output_size"),
        spatial=spatial,
        traits=frozenset({Trait.ADAPTIVE, Trait.SUMS} if kind == "avg" else {Trait.ADAPTIVE}),
    )


# Interpolation

_UPSAMPLE = {
    "nearest": ("nearest1d", "nearest2d", "nearest3d"),
    "nearest-exact": ("_nearest_exact1d", "_nearest_exact2d", "_nearest_exact3d"),
    "linear": ("linear1d",),
    "bilinear": ("bilinear2d", "_bilinear2d_aa"),
    "trilinear": ("trilinear3d",),
    "bicubic": ("bicubic2d", "_bicubic2d_aa"),
}
"""Mode of F.interpolate -> what ATen calls it."""
RANKS_OF_MODES = {"linear": (3,), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,)}
"""Ranks a mode takes; the others take 3, 4 and 5."""
_TAPS = {"linear": 2, "bilinear": 4, "trilinear": 8, "bicubic": 16}
"""Inputs that make an output."""


def _overload(kind: str) -> str:
    return f"aten._upsample{kind}.vec" if kind.startswith("_") else f"aten.upsample_{kind}.vec"


_MODES = {_overload(kind): mode for mode, kinds in _UPSAMPLE.items() for kind in kinds}


def _interpolate_types(b: Bound) -> tuple[TensorType, ...]:
    x, size, scale, mode = b["input"], b["size"], b["scale_factor"], b["mode"]
    float_dtype(b)
    require(mode in (*_UPSAMPLE, "area"), f"mode {mode!r} is none of {', '.join(_UPSAMPLE)}, area")
    ranks = RANKS_OF_MODES.get(mode, (3, 4, 5))
    require(x.rank in ranks, f"mode {mode!r} takes rank {ranks}, not {x.rank}")
    require((size is None) != (scale is None), "give one of size and scale_factor")
    is_linear = mode in RANKS_OF_MODES
    require(is_linear or b["align_corners"] is None, f"mode {mode!r} has no align_corners")
    require(
        not b["antialias"] or mode in ("bilinear", "bicubic"), f"mode {mode!r} has no antialias"
    )
    spatial = x.rank - 2
    target = size if scale is None else scale
    target = target if isinstance(target, tuple) else (target,) * spatial
    require(len(target) == spatial, f"{target} where {spatial} numbers are needed")
    out_sizes = (
        target
        if scale is None
        else tuple(_scaled(n, factor) for n, factor in zip(x.shape[2:], target, strict=True))
    )
    require(all(size >= 1 for size in out_sizes), f"output size {out_sizes} may not be below 1")
    return (laid_out(x, (*x.shape[:2], *out_sizes)),)


def _scaled(size: int, factor: float) -> int:
    # Shape rules also run on symbolic sizes, which take whole factors but no `floor`.
    return size * int(factor) if float(factor).is_integer() else floor(size * factor)


def _interpolate_spelled(overload: str, values: Mapping[str, Any]) -> dict[str, Any]:
    spelled = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    if overload:
        spelled |= {"mode": _MODES[overload], "antialias": overload.endswith("_aa.vec")}
    return spelled


def _interpolate_flops(b: Bound, outputs: tuple[TensorType, ...]) -> int:
    return outputs[0].numel * _TAPS.get(b["mode"], 1)


_INTERPOLATE = Operator(
    name="interpolate",
    family="pooling",
    call="F.interpolate",
    params=(
        INPUT,
        attribute("size", None),
        attribute("scale_factor", None, 2.0),
        attribute("mode", "nearest", "nearest", "nearest-exact"),
        attribute("align_corners", None),
        attribute("antialias", False),
    ),
    types=_interpolate_types,
    flops=_interpolate_flops,
    numerics=Numerics.POINTWISE,
    aten={
        overload: {"output_size": "size", "scale_factors": "scale_factor"} for overload in _MODES
    },
    canonical=_interpolate_spelled,
)

OPERATORS: tuple[Operator, ...] = (
    *(_windowed(kind, spatial) for kind in ("avg", "max") for spatial in (1, 2, 3)),
    *(_adaptive(kind, spatial) for kind in ("avg", "max") for spatial in (1, 2, 3)),
    _INTERPOLATE,
)
