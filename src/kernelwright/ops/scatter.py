"""Operators that write into a part of a tensor: the input with other values there."""

from collections.abc import Callable
from typing import Any

from kernelwright.ops.indexing import index_types, indexed_size, least_size, require_inside
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
from kernelwright.ops.rules import (
    INPUT,
    SELF,
    attribute,
    broadcast,
    common,
    dim_index,
    flops_none,
    replaced_size,
    require,
    tensor,
)

_DIM = attribute("dim", REQUIRED)
_INDEX, _SRC = tensor("index"), tensor("src")


def _scatter_types(b: Bound) -> tuple[TensorType, ...]:
    x, index, src = b["input"], b["index"], b.get("src")
    require(index.dtype in ("int64", "int32"), f"indices of {index.dtype}")
    at = dim_index(b["dim"], x.rank)
    ranks = {max(t.rank, 1) for t in (x, index, src) if t is not None}
    require(len(ranks) == 1, "input, index and src differ in rank")
    require_inside(index, x, at)
    if src is not None:
        common(x, src)
        fits = all(n <= m for n, m in zip(index.shape, src.shape, strict=False))
        require(fits, f"index {index.shape} is larger than src {src.shape}")
    return (TensorType(x.shape, x.dtype),)


def _index_put_types(b: Bound) -> tuple[TensorType, ...]:
    x, values = b["input"], b["values"]
    [part] = index_types(b)
    require(broadcast(values.shape, part.shape) == part.shape, f"{values.shape} for {part.shape}")
    common(x, values)
    return (TensorType(x.shape, x.dtype),)


def _num_put(b: Bound, _: tuple[TensorType, ...]) -> int:
    return index_types(b)[0].numel if b["accumulate"] else 0


def _select_scatter_types(b: Bound) -> tuple[TensorType, ...]:
    x, src, index = b["input"], b["src"], b["index"]
    require(x.rank > 0, "a scalar has nothing to select")
    at = dim_index(b["dim"], x.rank)
    require(-x.shape[at] <= index < x.shape[at], f"index {index} is out of range for {x.shape[at]}")
    return _with_part(x, src, replaced_size(x.shape, at))


def _slice_scatter_types(b: Bound) -> tuple[TensorType, ...]:
    x, src, step = b["input"], b["src"], b["step"]
    require(x.rank > 0 and step > 0, f"step {step} in rank {x.rank}")
    at = dim_index(b["dim"], x.rank)
    size = x.shape[at]
    start, end = (
        absent if bound is None else min(max(bound + size if bound < 0 else bound, 0), size)
        for bound, absent in ((b["start"], 0), (b["end"], size))
    )
    kept = max((end - start + step - 1) // step, 0)
    return _with_part(x, src, replaced_size(x.shape, at, kept))


def _with_part(x: TensorType, src: TensorType, part: tuple[int, ...]) -> tuple[TensorType, ...]:
    """The type of `x` after `src` is written to a part of this shape.

    Raises:
        ValueError: `src` has another shape or dtype.
    """
    require(src.shape == part, f"src {src.shape} where the part is {part}")
    common(x, src)
    return (TensorType(x.shape, x.dtype),)


def _writing(
    name: str,
    *params: Param,
    call: str = "",
    aten: str = "",
    flops: Callable[[Bound, tuple[TensorType, ...]], int] = flops_none,
    numerics: Numerics = Numerics.EXACT,
    **facts: Any,
) -> Operator:
    return Operator(
        name=name,
        family="scatter",
        call=call or f"torch.{name}",
        params=(INPUT, *params),
        flops=flops,
        numerics=numerics,
        aten={aten or f"aten.{name}.default": SELF},
        **facts,
    )


_AT_INDEX: dict[str, Any] = {
    "types": _scatter_types, "domains": {"index": Domain.INDEX}, "index_bound": indexed_size,
}  # fmt: skip

OPERATORS: tuple[Operator, ...] = (
    _writing(
        "scatter", _DIM, _INDEX, _SRC, call="torch.scatter", aten="aten.scatter.src", **_AT_INDEX
    ),
    _writing(
        "scatter_value", _DIM, _INDEX, attribute("value", REQUIRED),
        call="torch.scatter", aten="aten.scatter.value", **_AT_INDEX,
    ),
    _writing(
        "scatter_add", _DIM, _INDEX, _SRC, numerics=Numerics.REDUCTION,
        flops=lambda b, _: b["index"].numel, **_AT_INDEX,
    ),
    _writing(
        "index_put", tensor("indices", ParameterKind.OPTIONAL_TENSORS), tensor("values"),
        attribute("accumulate", False), call="torch.ops.aten.index_put", types=_index_put_types,
        numerics=Numerics.REDUCTION, flops=_num_put, domains={"indices": Domain.INDEX},
        index_bound=least_size,
    ),
    _writing(
        "select_scatter", _SRC, _DIM, attribute("index", REQUIRED, 0, -1),
        types=_select_scatter_types,
    ),
    _writing(
        "slice_scatter", _SRC, attribute("dim", 0), attribute("start", None),
        attribute("end", None), attribute("step", 1), types=_slice_scatter_types,
    ),
)  # fmt: skip
