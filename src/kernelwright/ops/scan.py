"""Cumulative operators along one dimension."""

from collections.abc import Callable

from kernelwright.ops.operator import REQUIRED, Bound, Numerics, Operator, TensorType
from kernelwright.ops.rules import (
    INPUT,
    accumulated,
    attribute,
    defaults,
    dim_index,
    flops_per_input,
    is_float,
    require,
)

DIM = attribute("dim", REQUIRED)
DTYPE = attribute("dtype", None)


def _accumulated(b: Bound) -> str:
    return str(b["dtype"] or accumulated(b["input"].dtype))


def _same(b: Bound) -> str:
    return str(b["input"].dtype)


def _floats_only(b: Bound) -> str:
    require(is_float(_same(b)), f"defined for floating-point tensors only, not {_same(b)}")
    return _same(b)


def _scan(
    name: str, dtype: Callable[[Bound], str], *, has_dtype: bool = False, indices: bool = False
) -> Operator:
    """With `indices` the positions of the values are a second output."""

    def types(b: Bound) -> tuple[TensorType, ...]:
        x: TensorType = b["input"]
        dim_index(b["dim"], x.rank)
        values = TensorType(x.shape, dtype(b))
        return (values, TensorType(x.shape, "int64")) if indices else (values,)

    return Operator(
        name=name,
        family="scan",
        call=f"torch.{name}",
        params=(INPUT, DIM, DTYPE) if has_dtype else (INPUT, DIM),
        types=types,
        flops=flops_per_input,
        numerics=Numerics.EXACT if indices else Numerics.REDUCTION,
        aten=defaults(name),
        num_outputs=2 if indices else 1,
    )


OPERATORS: tuple[Operator, ...] = (
    _scan("cumsum", _accumulated, has_dtype=True),
    _scan("cumprod", _accumulated, has_dtype=True),
    _scan("cummax", _same, indices=True),
    _scan("cummin", _same, indices=True),
    _scan("logcumsumexp", _floats_only),
)
