"""Losses and similarities."""

from collections.abc import Callable, Mapping
from typing import Any

from kernelwright.ops.operator import (
    Bound,
    Domain,
    Numerics,
    Operator,
    Param,
    ParameterKind,
    TensorType,
)
from kernelwright.ops.rules import (
    INPUT,
    Aten,
    attribute,
    broadcast,
    common,
    dim_index,
    float_dtype,
    is_float,
    pointwise_layout,
    promote,
    reduced,
    require,
    tensor,
)
from kernelwright.ops.traits import Trait

Rule = Callable[[Bound], TensorType]
"""Type of a loss before its reduction."""

_CODES = ("none", "mean", "sum")
"""ATen's reduction codes are positions in this."""
_TARGET = tensor("target")
_WEIGHT = tensor("weight", ParameterKind.OPTIONAL_TENSOR)
_REDUCTION = attribute("reduction", "mean", "mean", "sum", "none")
_IGNORE = attribute("ignore_index", -100)
_INPUTS = (tensor("input1"), tensor("input2"), _TARGET)
_PAIR = (tensor("x1"), tensor("x2"))


# Types before the reduction


def _promoted(b: Bound, *names: str) -> TensorType:
    """The type to which these arguments, as far as given, broadcast and promote.

    Raises:
        ValueError: shapes do not broadcast, or the dtype is no floating-point dtype.
    """
    operands = [b[name] for name in names if b[name] is not None]
    shape, dtype = broadcast(*(t.shape for t in operands)), promote(*operands)
    require(is_float(dtype), f"defined for floating-point tensors only, not {dtype}")
    return TensorType(shape, dtype, pointwise_layout(shape, operands))


def _pairwise(b: Bound) -> TensorType:
    return _promoted(b, "input", "target")


def _huber(b: Bound) -> TensorType:
    require(b["delta"] > 0, f"delta {b['delta']} is not above 0")
    return _pairwise(b)


def _smooth_l1(b: Bound) -> TensorType:
    require(b["beta"] >= 0, f"beta {b['beta']} is below 0")
    return _pairwise(b)


def _cross_entropy(b: Bound) -> TensorType:
    smoothing = b["label_smoothing"]
    require(0 <= smoothing <= 1, f"label_smoothing {smoothing} is outside [0, 1]")
    x, target = b["input"], b["target"]
    # PyTorch tells probabilities from classes by the shape, which is that of the scores.
    if target.shape != x.shape or not is_float(target.dtype):
        return _picked(b)
    float_dtype(b)
    common(x, target)
    classes = _class_dim(x)
    _class_weight(b, x.shape[classes])
    require(b["ignore_index"] < 0, "ignore_index has no meaning for probabilities")
    return TensorType(reduced(x.shape, classes, False), x.dtype)


def _picked(b: Bound) -> TensorType:
    """The type of the loss of each sample: scores (N, C, *rest), classes (N, *rest) in int64."""
    x, target = b["input"], b["target"]
    float_dtype(b)
    classes = _class_dim(x)
    shape = reduced(x.shape, classes, False)
    require(target.shape == shape, f"target of shape {target.shape}, not {shape}")
    require(target.dtype == "int64", f"target of {target.dtype}, not int64")
    _class_weight(b, x.shape[classes])
    return TensorType(shape, x.dtype)


def _class_dim(x: TensorType) -> int:
    require(x.rank > 0, "a scalar has no classes")
    return min(x.rank - 1, 1)


def _class_weight(b: Bound, classes: int) -> None:
    if b["weight"] is not None:
        shape = b["weight"].shape
        require(shape == (classes,), f"weight of shape {shape} for {classes} classes")
        common(b["input"], b["weight"])


def _num_classes(b: Bound) -> int:
    x: TensorType = b["input"]
    return x.shape[_class_dim(x)]


def _binary(b: Bound) -> TensorType:
    x, target = b["input"], b["target"]
    require(x.shape == target.shape, f"input {x.shape} and target {target.shape} differ")
    result_type = _promoted(b, "input", "target", "weight", *("pos_weight",) * ("pos_weight" in b))
    require(result_type.shape == x.shape, f"weights widen {x.shape} to {result_type.shape}")
    return result_type


def _probability(b: Bound) -> TensorType:
    common(*(b[name] for name in ("input", "target", "weight") if b[name] is not None))
    return _binary(b)


def _same_rank(b: Bound, *names: str) -> TensorType:
    ranks = [b[name].rank for name in names]
    require(len(set(ranks)) == 1, f"ranks {ranks} differ")
    return _promoted(b, *names)


def _triplet(b: Bound) -> TensorType:
    require(b["margin"] > 0, f"margin {b['margin']} is not above 0")
    return _distances(_same_rank(b, "anchor", "positive", "negative"))


def _cosine_embedding(b: Bound) -> TensorType:
    one, two, target = (b[name] for name in ("input1", "input2", "target"))
    require(target.rank < 2, f"target of rank {target.rank}, not 0 or 1")
    require(
        one.rank == two.rank == target.rank + 1,
        f"ranks {one.rank} and {two.rank} for a target of rank {target.rank}",
    )
    result_type = _distances(_promoted(b, "input1", "input2"))
    shape = broadcast(result_type.shape, target.shape)
    return TensorType(shape, promote(result_type, target))


def _distances(made: TensorType, keepdim: bool = False) -> TensorType:
    return TensorType(reduced(made.shape, -1, keepdim), made.dtype)


def _cosine_similarity(b: Bound) -> TensorType:
    result_type = _promoted(b, "x1", "x2")
    dim = dim_index(b["dim"], result_type.rank)
    return TensorType(reduced(result_type.shape, dim, False), result_type.dtype)


# Records


def _named_reduction(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical spelling: the name of the reduction for ATen's code."""
    code = values.get("reduction")
    if isinstance(code, int):
        return {**values, "reduction": _CODES[code]}
    return dict(values)


def _reduction(unreduced: Rule) -> Callable[[Bound], tuple[TensorType, ...]]:
    def types(b: Bound) -> tuple[TensorType, ...]:
        result_type, how = unreduced(b), b["reduction"]
        allowed = (*_CODES, "batchmean") if "log_target" in b else _CODES
        require(how in allowed, f"reduction {how!r} is none of {', '.join(allowed)}")
        return (result_type if how == "none" else TensorType((), result_type.dtype),)

    return types


def _work(per_element: int) -> Callable[[Bound, tuple[TensorType, ...]], int]:
    def flops(b: Bound, _: tuple[TensorType, ...]) -> int:
        widest = max(v.numel for v in b.values() if isinstance(v, TensorType))
        return per_element * int(widest)

    return flops


def _loss(
    name: str,
    unreduced: Rule,
    per_element: int,
    *params: Param,
    aten: Aten | None = None,
    domains: Mapping[str, Domain] | None = None,
) -> Operator:
    """A record of a loss.

    Args:
        unreduced: the type of the loss before its reduction.
        per_element: FLOPs for each element of the largest argument.
    """
    is_indexed = (domains or {}).get("target") is Domain.INDEX
    names = {"self": "input"} if params[0] is INPUT else {}
    return Operator(
        name=name,
        family="loss",
        call=f"F.{name}",
        params=params,
        types=_reduction(unreduced),
        flops=_work(per_element),
        numerics=Numerics.REDUCTION,
        aten=aten or {f"aten.{name}.default": names},
        domains=domains or {},
        index_bound=_num_classes if is_indexed else None,
        canonical=_named_reduction,
    )


def _similarity(name: str, types: Rule, per_element: int, *params: Param) -> Operator:
    return Operator(
        name=name,
        family="loss",
        call=f"F.{name}",
        params=(*_PAIR, *params),
        types=lambda b: (types(b),),
        flops=_work(per_element),
        numerics=Numerics.REDUCTION,
        aten={f"aten.{name}.default": {}},
    )


_INDEX = {"target": Domain.INDEX}
_SIGN = {"target": Domain.SIGN}
_UNIT = {"target": Domain.UNIT}
_BY_SELF = {"self": "input"}

OPERATORS: tuple[Operator, ...] = (
    _loss("mse_loss", _pairwise, 3, INPUT, _TARGET, _REDUCTION),
    _loss("l1_loss", _pairwise, 3, INPUT, _TARGET, _REDUCTION),
    _loss(
        "huber_loss", _huber, 5, INPUT, _TARGET, _REDUCTION, attribute("delta", 1.0, 0.5, 1.0, 2.0)
    ),
    _loss(
        "smooth_l1_loss", _smooth_l1, 5, INPUT, _TARGET, _REDUCTION,
        attribute("beta", 1.0, 0.5, 1.0, 2.0),
    ),
    _loss(
        "cross_entropy", _cross_entropy, 5, INPUT, _TARGET, _WEIGHT, _IGNORE, _REDUCTION,
        attribute("label_smoothing", 0.0, 0.0, 0.1),
        aten={"aten.cross_entropy_loss.default": _BY_SELF}, domains=_INDEX,
    ).having(Trait.TARGET_PER_ROW),
    _loss(
        "nll_loss", _picked, 1, INPUT, _TARGET, _WEIGHT, _IGNORE, _REDUCTION,
        aten={"aten.nll_loss_nd.default": _BY_SELF, "aten.nll_loss.default": _BY_SELF},
        domains=_INDEX | {"input": Domain.LOG_PROB},
    ).having(Trait.TARGET_PER_ROW),
    _loss(
        "kl_div", _pairwise, 4, INPUT, _TARGET, _REDUCTION, attribute("log_target", False),
        domains=_UNIT | {"input": Domain.LOG_PROB},
    ),
    _loss(
        "binary_cross_entropy", _probability, 5, INPUT, _TARGET, _WEIGHT, _REDUCTION,
        domains=_UNIT | {"input": Domain.UNIT},
    ),
    _loss(
        "binary_cross_entropy_with_logits", _binary, 6, INPUT, _TARGET, _WEIGHT, _REDUCTION,
        tensor("pos_weight", ParameterKind.OPTIONAL_TENSOR), domains=_UNIT,
    ),
    _loss(
        "hinge_embedding_loss", _pairwise, 4, INPUT, _TARGET, attribute("margin", 1.0, 0.5, 1.0),
        _REDUCTION, domains=_SIGN,
    ),
    _loss(
        "soft_margin_loss", _pairwise, 4, INPUT, _TARGET, _REDUCTION, domains=_SIGN,
    ),
    _loss(
        "margin_ranking_loss", lambda b: _same_rank(b, "input1", "input2", "target"), 5, *_INPUTS,
        attribute("margin", 0.0, 0.0, 0.5), _REDUCTION, domains=_SIGN,
    ),
    _loss(
        "cosine_embedding_loss", _cosine_embedding, 6, *_INPUTS, attribute("margin", 0.0, 0.0, 0.5),
        _REDUCTION, domains=_SIGN,
    ).having(Trait.TARGET_PER_ROW),
    _loss(
        "triplet_margin_loss", _triplet, 8,
        tensor("anchor"), tensor("positive"), tensor("negative"),
        attribute("margin", 1.0, 0.5, 1.0), attribute("p", 2.0, 1.0, 2.0),
        attribute("eps", 1e-6), attribute("swap", False), _REDUCTION,
    ),
    _similarity(
        "cosine_similarity", _cosine_similarity, 6, attribute("dim", 1), attribute("eps", 1e-8)
    ),
    _similarity(
        "pairwise_distance", lambda b: _distances(_promoted(b, "x1", "x2"), b["keepdim"]), 4,
        attribute("p", 2.0, 1.0, 2.0), attribute("eps", 1e-6), attribute("keepdim", False),
    ),
)  # fmt: skip
