"""Normalization over channels, groups or trailing dimensions."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from kernelwright.ops.operator import (
    REQUIRED,
    Bound,
    Domain,
    Numerics,
    Operator,
    Param,
    ParameterKind,
    TensorType,
)
from kernelwright.ops.rules import INPUT, Aten, attribute, common, float_dtype, require, tensor
from kernelwright.ops.traits import Trait
from kernelwright.ops.windows import laid_out, spread

_WEIGHT = tensor("weight", ParameterKind.OPTIONAL_TENSOR)
_BIAS = tensor("bias", ParameterKind.OPTIONAL_TENSOR)
_EPS = attribute("eps", 1e-5, 1e-5, 1e-3)
_MOMENTUM = attribute("momentum", 0.1)

_MEAN_FLOPS, _VARIANCE_FLOPS, _SCALE_FLOPS = 1, 3, 1
"""An element: add; subtract, square, add; multiply by the inverse deviation."""


# Checks


def _affine(b: Bound, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless weight and bias, as far as given, have this shape and x's dtype."""
    for name in ("weight", "bias"):
        weights = b.get(name)
        if weights is not None:
            require(weights.shape == shape, f"{name} of shape {weights.shape}, not {shape}")
            common(b["input"], weights)


def _channels(x: TensorType, lowest_rank: int) -> int:
    require(x.rank >= lowest_rank, f"rank {x.rank} is below {lowest_rank}")
    return x.shape[1]


def _running(b: Bound, channels: int) -> None:
    for name in ("running_mean", "running_var"):
        shape = b[name].shape
        require(shape == (channels,), f"{name} of shape {shape} for {channels} channels")
    require(b["running_mean"].dtype == b["running_var"].dtype, "dtypes of the statistics differ")
    require(
        b["running_mean"].dtype in (b["input"].dtype, "float32"),
        f"statistics of {b['running_mean'].dtype} for {b['input'].dtype}",
    )


def _several(count: int) -> None:
    require(count > 1, "statistics need more than one value")


# Shape rules


def _trailing_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    float_dtype(b)
    shape = spread(b["normalized_shape"], 1)
    require(
        0 < len(shape) <= x.rank and x.shape[x.rank - len(shape) :] == shape,
        f"normalized_shape {shape} is not the end of {x.shape}",
    )
    _affine(b, shape)
    return (TensorType(x.shape, x.dtype),)


def _rms_norm_types(b: Bound) -> tuple[TensorType, ...]:
    (result_type,) = _trailing_types(b)
    return (laid_out(b["input"], result_type.shape),)


def _group_norm_types(b: Bound) -> tuple[TensorType, ...]:
    """Types of group_norm. Results are contiguous, as on CUDA; on a CPU channels-last stays."""
    x, groups = b["input"], b["num_groups"]
    float_dtype(b)
    channels = _channels(x, 2)
    require(groups >= 1 and channels % groups == 0, f"{channels} channels in {groups} groups")
    _several(x.numel // groups)
    _affine(b, (channels,))
    return (TensorType(x.shape, x.dtype),)


def _instance_norm_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    float_dtype(b)
    channels = _channels(x, 2)
    _affine(b, (channels,))
    has_stats = b["running_mean"] is not None and b["running_var"] is not None
    if b["use_input_stats"]:
        _several(prod(x.shape[2:]))
        require(not has_stats, "running statistics would change in place")
    else:
        require(has_stats, "without input statistics, running ones are needed")
        _running(b, channels)
    return (TensorType(x.shape, x.dtype),)


def _batch_norm_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    float_dtype(b)
    channels = _channels(x, 2)
    _affine(b, (channels,))
    has_stats = b["running_mean"] is not None and b["running_var"] is not None
    if b["training"]:
        _several(x.numel // channels)
        require(not has_stats, "running statistics would change in place: batch_norm_train")
    else:
        require(has_stats, "without batch statistics, running ones are needed")
        _running(b, channels)
    return (laid_out(x, x.shape),)


def _batch_norm_train_types(b: Bound) -> tuple[TensorType, ...]:
    """(normalized, mean, 1 / deviation, new running mean, new running variance)."""
    x, mean, variance = b["input"], b["running_mean"], b["running_var"]
    float_dtype(b)
    channels = _channels(x, 2)
    _affine(b, (channels,))
    _running(b, channels)
    require(b["training"], "in inference the statistics stay: batch_norm")
    _several(x.numel // channels)
    saved = TensorType((channels,), "float64" if x.dtype == "float64" else "float32")
    return (laid_out(x, x.shape), saved, saved, mean, variance)


# Work


def _flops(per_element: int) -> Callable[[Bound, tuple[TensorType, ...]], int]:
    """The rule of FLOPs: `per_element` for each element, and one more for weight and bias each."""

    def flops(b: Bound, _: tuple[TensorType, ...]) -> int:
        affine = sum(b.get(name) is not None for name in ("weight", "bias"))
        return (per_element + affine) * int(b["input"].numel)

    return flops


_CENTERED = _flops(_MEAN_FLOPS + _VARIANCE_FLOPS + _SCALE_FLOPS)


# Canonical spelling


def _shape_spelled(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: spread(v, 1) if k == "normalized_shape" else v for k, v in values.items()}


def _no_momentum(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The spelling without momentum, which matters only where running statistics change."""
    return {k: v for k, v in values.items() if k != "momentum"}


def _batch_norm_spelled(overload: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The spelling with both statistics, as F.batch_norm takes them by position."""
    return {"running_mean": None, "running_var": None} | _no_momentum(overload, values)


# Axes of a group


def _trailing_axes(b: Bound) -> frozenset[int]:
    rank = b["input"].rank
    return frozenset(range(rank - len(b["normalized_shape"]), rank))


def _group_axes(b: Bound) -> frozenset[int]:
    x: TensorType = b["input"]
    is_whole = b["num_groups"] != x.shape[1]
    return frozenset(range(1 if is_whole else 2, x.rank))


def _instance_axes(b: Bound) -> frozenset[int] | None:
    return frozenset(range(2, b["input"].rank)) if b["use_input_stats"] else None


def _batch_axes(b: Bound) -> frozenset[int] | None:
    return frozenset(range(b["input"].rank)) - {1} if b["training"] else None


# Records


def _norm(
    name: str,
    params: tuple[Param, ...],
    types: Callable[[Bound], tuple[TensorType, ...]],
    aten: Aten,
    call: str = "",
    flops: Callable[[Bound, tuple[TensorType, ...]], int] = _CENTERED,
    **rest: Any,
) -> Operator:
    return Operator(
        name=name,
        family="normalization",
        params=params,
        types=types,
        numerics=Numerics.REDUCTION,
        aten=aten,
        call=call or f"F.{name}",
        flops=flops,
        **rest,
    )


_ANY_STATS = (
    Param(name="running_mean", kind=ParameterKind.OPTIONAL_TENSOR),
    Param(name="running_var", kind=ParameterKind.OPTIONAL_TENSOR),
)
_NO_STATS = (
    tensor("running_mean", ParameterKind.OPTIONAL_TENSOR),
    tensor("running_var", ParameterKind.OPTIONAL_TENSOR),
)
_VARIANCE_DOMAIN = {"running_var": Domain.POSITIVE}

OPERATORS: tuple[Operator, ...] = (
    _norm(
        "layer_norm",
        (INPUT, attribute("normalized_shape", REQUIRED), _WEIGHT, _BIAS, _EPS),
        _trailing_types,
        {"aten.layer_norm.default": {"cudnn_enable": ""}},
        canonical=_shape_spelled,
        normalized_axes=_trailing_axes,
    ).having(Trait.IGNORES_SHIFT),
    _norm(
        "rms_norm",
        (INPUT, attribute("normalized_shape", REQUIRED), _WEIGHT, attribute("eps", None, 1e-5)),
        _rms_norm_types,
        {"aten.rms_norm.default": {}},
        canonical=_shape_spelled,
        flops=_flops(2 + _SCALE_FLOPS),
    ),
    _norm(
        "group_norm",
        (INPUT, attribute("num_groups", REQUIRED, 1, 2, 4, 8), _WEIGHT, _BIAS, _EPS),
        _group_norm_types,
        {"aten.group_norm.default": {"cudnn_enabled": ""}},
        normalized_axes=_group_axes,
    ).having(Trait.IGNORES_SHIFT),
    _norm(
        "instance_norm",
        (INPUT, *_NO_STATS, _WEIGHT, _BIAS, attribute("use_input_stats", True), _MOMENTUM, _EPS),
        _instance_norm_types,
        {"aten.instance_norm.default": {"cudnn_enabled": ""}},
        domains=_VARIANCE_DOMAIN,
        canonical=_no_momentum,
        normalized_axes=_instance_axes,
    ).having(Trait.IGNORES_SHIFT),
    _norm(
        "batch_norm",
        (INPUT, *_ANY_STATS, _WEIGHT, _BIAS, attribute("training", False), _MOMENTUM, _EPS),
        _batch_norm_types,
        {
            "aten.batch_norm.default": {"cudnn_enabled": ""},
            "aten._native_batch_norm_legit_no_training.default": {},
            "aten._native_batch_norm_legit.no_stats": {},
        },
        domains=_VARIANCE_DOMAIN,
        canonical=_batch_norm_spelled,
        normalized_axes=_batch_axes,
    ).having(Trait.CHEAP),
    _norm(
        "batch_norm_train",
        (
            INPUT,
            Param(name="weight", kind=ParameterKind.OPTIONAL_TENSOR),
            Param(name="bias", kind=ParameterKind.OPTIONAL_TENSOR),
            tensor("running_mean"),
            tensor("running_var"),
            attribute("training", REQUIRED, True),
            attribute("momentum", REQUIRED, 0.1),
            attribute("eps", REQUIRED, 1e-5),
        ),
        _batch_norm_train_types,
        {"aten._native_batch_norm_legit_functional.default": {}},
        call="torch.ops.aten._native_batch_norm_legit_functional",
        num_outputs=5,
        domains=_VARIANCE_DOMAIN,
        normalized_axes=_batch_axes,
    ),
)
