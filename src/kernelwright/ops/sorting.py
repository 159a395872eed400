"""Operators that order elements along a dimension: (values, their positions).

PyTorch does not say which of two equal elements comes first, unless the sort is stable.
"""

from collections.abc import Mapping
from typing import Any

from kernelwright.ops.operator import REQUIRED, Bound, Numerics, Operator, Param, TensorType
from kernelwright.ops.rules import (
    INPUT,
    SELF,
    attribute,
    defaults,
    dim_index,
    flops_per_input,
    replaced_size,
    require,
)

_DIM = attribute("dim", -1)


def _sort_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    dim_index(b["dim"], x.rank)
    return (TensorType(x.shape, x.dtype), TensorType(x.shape, "int64"))


def _sort_values(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical spelling: `stable` is a bool, where ATen's overload may have None."""
    return {**values, "stable": bool(values.get("stable", False))}


def _topk_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    at, k = dim_index(b["dim"], x.rank), b["k"]
    require(0 <= k <= (x.shape[at] if x.rank else 1), f"the {k} largest along {at} of {x.shape}")
    shape = replaced_size(x.shape, at, k) if x.rank else x.shape
    return (TensorType(shape, x.dtype), TensorType(shape, "int64"))


def _sorting(name: str, *params: Param, **facts: Any) -> Operator:
    return Operator(
        name=name,
        family="sorting",
        call=f"torch.{name}",
        params=(INPUT, *params),
        flops=flops_per_input,
        numerics=Numerics.EXACT,
        num_outputs=2,
        **facts,
    )


OPERATORS: tuple[Operator, ...] = (
    _sorting(
        "sort", _DIM, attribute("descending", False), attribute("stable", False),
        types=_sort_types, canonical=_sort_values,
        aten={"aten.sort.default": SELF, "aten.sort.stable": SELF},
    ),
    _sorting(
        "topk", attribute("k", REQUIRED), _DIM, attribute("largest", True),
        attribute("sorted", True), types=_topk_types, aten=defaults("topk"),
    ),
)  # fmt: skip
