"""Sample calls of every operator: one module a family, with `SAMPLES` and `BAD` tuples.

`SAMPLES` are calls PyTorch accepts (at least two an operator), `BAD` ones it refuses.
"""

from dataclasses import dataclass
from typing import Any

from kernelwright.ops.operator import Layout, TensorType


@dataclass(frozen=True)
class Sample:
    """A call: `args` are the operator's leading parameters, `attributes` the rest by name.
    Tensors are given by type; a tuple of types is a sequence of tensors."""

    op: str
    args: tuple[Any, ...]
    attributes: dict[str, Any]

    def __str__(self) -> str:
        shapes = ",".join(_short(value) for value in self.args)
        rest = "".join(f",{key}={_short(value)}" for key, value in self.attributes.items())
        return f"{self.op}({shapes}{rest})"


def sample(op: str, *args: Any, **attributes: Any) -> Sample:
    return Sample(op, args, attributes)


def f32(*shape: int) -> TensorType:
    return TensorType(shape)


def f16(*shape: int) -> TensorType:
    return TensorType(shape, "float16")


def bf16(*shape: int) -> TensorType:
    return TensorType(shape, "bfloat16")


def i64(*shape: int) -> TensorType:
    return TensorType(shape, "int64")


def u8(*shape: int) -> TensorType:
    return TensorType(shape, "uint8")


def i32(*shape: int) -> TensorType:
    return TensorType(shape, "int32")


def b8(*shape: int) -> TensorType:
    return TensorType(shape, "bool")


def nhwc(*shape: int) -> TensorType:
    """Channels-last, of rank 4 or 5."""
    return TensorType(shape, "float32", Layout.CHANNELS_LAST)


def _short(value: Any) -> str:
    if isinstance(value, TensorType):
        layout = "" if value.layout is Layout.CONTIGUOUS else f" {value.layout}"
        return f"{value.dtype}{list(value.shape)}".replace(" ", "") + layout
    if isinstance(value, tuple):
        return "(" + ",".join(map(_short, value)) + ")"
    return str(value)
