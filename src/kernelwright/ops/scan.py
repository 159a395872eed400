"""Cumulative operators along one dimension."""

from kernelwright.ops.operator import REQUIRED, Bound, Numerics, Operator, TensorType
from kernelwright.ops.rules import (
    INPUT,
    DtypeRule,
    accumulated,
    attribute,
    defaults,
    dim_index,
    float_dtype,
    flops_per_input,
    same_dtype,
)
from kernelwright.ops.traits import Trait

DIM = attribute("dim", REQUIRED)
DTYPE = attribute("dtype", None)


def _scan(
    name: str, dtype: DtypeRule, *, has_dtype: bool = False, indices: bool = False
) -> Operator:
    """A record of a scan.

    Args:
        dtype: dtype rule of the result.
        has_dtype: whether the call has a parameter `dtype`.
        indices: whether a second result holds the positions of the values, as int64.
    """

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
    _scan("cumsum", accumulated, has_dtype=True).having(Trait.KNOWN_OF_ONE),
    _scan("cumprod", accumulated, has_dtype=True).having(Trait.KNOWN_OF_ONE),
    _scan("cummax", same_dtype, indices=True),
    _scan("cummin", same_dtype, indices=True),
    _scan("logcumsumexp", float_dtype).having(Trait.KNOWN_OF_ONE),
)
