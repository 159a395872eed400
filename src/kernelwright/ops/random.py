"""Operators that draw from the generator."""

from kernelwright.ops.operator import Bound, Numerics, Operator, TensorType
from kernelwright.ops.rules import INPUT, SELF, attribute, float_dtype, flops_per_output, require


def _dropout_types(b: Bound) -> tuple[TensorType, ...]:
    require(0 <= b["p"] <= 1, f"probability {b['p']} is outside [0, 1]")
    return _like_types(b)


def _like_types(b: Bound) -> tuple[TensorType, ...]:
    x: TensorType = b["input"]
    return (TensorType(x.shape, float_dtype(b), x.layout),)


def _like(name: str) -> Operator:
    return Operator(
        name=name,
        family="random",
        call=f"torch.{name}",
        params=(INPUT,),
        types=_like_types,
        flops=flops_per_output,
        numerics=Numerics.RANDOM,
        aten={f"aten.{name}.default": SELF},
    )


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="dropout",
        family="random",
        call="F.dropout",
        params=(INPUT, attribute("p", 0.5, 0.1, 0.5), attribute("training", True)),
        types=_dropout_types,
        flops=flops_per_output,
        numerics=Numerics.RANDOM,
        aten={
            "aten.dropout.default": {"train": "training"},
            "aten.native_dropout.default": {"train": "training"},
        },
    ),
    _like("rand_like"),
    _like("randn_like"),
)
