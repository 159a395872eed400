"""Operators that make tensors of numbers alone: positions and constants.

They read no tensor. A kernel that needs such a value computes it; nothing is loaded.
"""

import math
from collections.abc import Mapping
from typing import Any

from kernelwright.ops.operator import (
    REQUIRED,
    Bound,
    Numerics,
    Operator,
    Param,
    TensorType,
)
from kernelwright.ops.rules import Aten, attribute, flops_none, promote, require

_DTYPE = attribute("dtype", None)
_NUMBER_OF = {
    "zeros": 0, "new_zeros": 0, "ones": 1, "new_ones": 1,
    # Memory that nothing has written may hold any values. Zeros are the same in each run.
    "empty": 0, "empty_permuted": 0, "new_empty": 0,
}  # fmt: skip
"""ATen creators whose name says the number."""


def _arange_types(b: Bound) -> tuple[TensorType, ...]:
    start, end, step = b["start"], b["end"], b["step"]
    require(step != 0, "step must not be 0")
    length = math.ceil((end - start) / step)
    require(length >= 0, f"from {start} to {end} in steps of {step}")
    return (TensorType((length,), b["dtype"] or promote(start, end, step)),)


def _arange_values(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical spelling with a start: `arange(16)` names the end alone."""
    if "start" in values and "end" not in values:
        return {**values, "start": 0, "end": values["start"]}
    return {"start": 0, **values}


def _full_types(b: Bound) -> tuple[TensorType, ...]:
    require(all(size >= 0 for size in b["size"]), f"size {b['size']}")
    return (TensorType(tuple(b["size"]), b["dtype"] or promote(b["fill_value"])),)


def _full_values(overload: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical spelling of zeros, ones and the like: `full` with the number."""
    name = overload.split(".")[1] if overload else ""
    if name in _NUMBER_OF:
        return {**values, "fill_value": _NUMBER_OF[name]}
    return {"size": (), **values} if name == "scalar_tensor" else dict(values)


def _creating(name: str, *params: Param, **facts: Any) -> Operator:
    return Operator(
        name=name,
        family="creation",
        call=f"torch.{name}",
        params=(*params, _DTYPE),
        flops=flops_none,
        numerics=Numerics.EXACT,
        **facts,
    )


_FULL_ATEN: Aten = {
    "aten.full.default": {},
    "aten.zeros.default": {},
    "aten.ones.default": {},
    "aten.empty.memory_format": {"memory_format": ""},
    "aten.empty_permuted.default": {"physical_layout": ""},
    "aten.scalar_tensor.default": {"s": "fill_value"},
    **{f"aten.{name}.default": {"self": ""}
       for name in ("new_zeros", "new_ones", "new_empty", "new_full")},
}  # fmt: skip

OPERATORS: tuple[Operator, ...] = (
    _creating(
        "arange", attribute("start", REQUIRED), attribute("end", REQUIRED), attribute("step", 1),
        types=_arange_types, canonical=_arange_values,
        aten={f"aten.arange.{kind}": {} for kind in ("default", "start", "start_step")},
    ),
    _creating(
        "full", attribute("size", REQUIRED), attribute("fill_value", REQUIRED),
        types=_full_types, canonical=_full_values, aten=_FULL_ATEN,
    ),
)  # fmt: skip
