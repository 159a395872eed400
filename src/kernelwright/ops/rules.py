"""Building blocks of shape rules: broadcasting, reduced shapes, dtype promotion, layouts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelwright.ops.operator import Bound, Layout, Param, ParameterKind, TensorType

SELF = {"self": "input"}
"""ATen calls the first tensor `self`; the PyTorch callables call it `input`."""

DtypeRule = Callable[[Bound], str]
"""Dtype of a call's first result."""
Aten = Mapping[str, Mapping[str, str]]
"""The type of `Operator.aten`."""

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTS = ("uint8", "int8", "int16", "int32", "int64")


def tensor(name: str, kind: ParameterKind = ParameterKind.TENSOR) -> Param:
    """A tensor parameter; the default of an OPTIONAL_TENSOR is None."""
    if kind is ParameterKind.OPTIONAL_TENSOR:
        return Param(name=name, kind=kind, default=None)
    return Param(name=name, kind=kind)


def attribute(name: str, default: Any, *domain: Any) -> Param:
    """A compile-time parameter; `domain` lists values a sampler may draw."""
    return Param(name=name, kind=ParameterKind.ATTRIBUTE, default=default, domain=domain)


INPUT = tensor("input")


def defaults(*names: str) -> dict[str, dict[str, str]]:
    """The .default overloads of ATen operators, for `Operator.aten`."""
    return {f"aten.{name}.default": SELF for name in names}


def require(holds: bool, message: str) -> None:
    """Raise ValueError(message) unless `holds`: how a shape rule refuses its inputs."""
    if not holds:
        raise ValueError(message)


# Dimensions and shapes


def dim_index(dim: int, rank: int) -> int:
    """`dim` counted from the front.

    As in PyTorch, a tensor of rank 0 takes the dimensions 0 and -1.

    Raises:
        ValueError: the dimension is out of range.
    """
    bound = max(rank, 1)
    require(-bound <= dim < bound, f"dimension {dim} is out of range for rank {rank}")
    return dim % bound


def dim_indices(dim: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The dimensions that `dim` names, ascending and counted from the front.

    None and () name all dimensions. The result for rank 0 is empty.

    Raises:
        ValueError: a dimension is out of range, or is named twice.
    """
    if dim is None or dim == ():
        return tuple(range(rank))
    wanted = [dim_index(d, rank) for d in ((dim,) if isinstance(dim, int) else dim)]
    require(len(set(wanted)) == len(wanted), f"dimensions {dim} name one twice")
    return tuple(sorted(wanted)) if rank else ()


def replaced_size(shape: tuple[int, ...], at: int, *sizes: int) -> tuple[int, ...]:
    """`shape` with `sizes`, possibly none, in place of the size at position `at`."""
    return (*shape[:at], *sizes, *shape[at + 1 :])


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all `shapes` broadcast to.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    rank = max(map(len, shapes), default=0)
    result = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def reduced(
    shape: tuple[int, ...], dim: int | Sequence[int] | None, keepdim: bool
) -> tuple[int, ...]:
    """`shape` with the dimensions `dim` reduced to 1 if `keepdim`, else removed."""
    gone = dim_indices(dim, len(shape))
    if keepdim:
        return tuple(1 if i in gone else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in gone)


# Dtypes


def is_float(dtype: str) -> bool:
    """Whether a dtype is a floating-point dtype that operators compute with."""
    return dtype in _FLOATS


def is_int(dtype: str) -> bool:
    """Whether a dtype is an integer dtype; bool is not."""
    return dtype in _INTS


def promote(*values: TensorType | float | None) -> str:
    """The dtype in which PyTorch computes when `values` meet in an operator.

    A higher category (bool < int < float) wins. Within a category, tensors with dimensions decide
    over tensors without, and these over numbers.

    Raises:
        ValueError: every value is None.
    """
    # In order of priority: tensors with dimensions, tensors without, numbers.
    groups: tuple[list[str], list[str], list[str]] = ([], [], [])
    for value in values:
        if isinstance(value, TensorType):
            groups[0 if value.rank else 1].append(value.dtype)
        elif value is not None:
            groups[2].append(_number_dtype(value))
    result = ""
    for group in groups:
        lower = ""
        for dtype in group:
            lower = _join(lower, dtype) if lower else dtype
        if not result or (lower and _category(lower) > _category(result)):
            result = _join(result, lower) if result else lower
    require(bool(result), "no operand has a dtype")
    return result


def common(*tensors: TensorType) -> str:
    """The dtype that all `tensors` share, for operators that do not promote.

    Raises:
        ValueError: the dtypes differ.
    """
    dtypes = sorted({t.dtype for t in tensors})
    require(len(dtypes) == 1, f"dtypes differ: {', '.join(dtypes)}")
    return dtypes[0]


def same_dtype(b: Bound) -> str:
    """Dtype rule of results that have the input's dtype."""
    return str(b["input"].dtype)


def float_dtype(b: Bound) -> str:
    """Dtype rule of functions that refuse integers and bool."""
    dtype = same_dtype(b)
    require(is_float(dtype), f"defined for floating-point tensors only, not {dtype}")
    return dtype


def floating(dtype: str) -> str:
    """The dtype of a function that computes in floats: integers and bool become float32."""
    return dtype if is_float(dtype) else "float32"


def accumulated(b: Bound) -> str:
    """The dtype of a sum or product, if the call names none: int64 for integers and bool; floats
    keep their dtype."""
    dtype: str = b["input"].dtype
    return str(b["dtype"] or (dtype if is_float(dtype) else "int64"))


def _number_dtype(value: float) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float32"


def _category(dtype: str) -> int:
    return 2 if is_float(dtype) else 1 if is_int(dtype) else 0


def _join(a: str, b: str) -> str:
    """The dtype to which two dtypes promote."""
    if _category(a) != _category(b):
        return max(a, b, key=_category)
    # Of these two pairs, neither dtype holds all values of the other.
    if {a, b} == {"float16", "bfloat16"}:
        return "float32"
    if {a, b} == {"uint8", "int8"}:
        return "int16"
    order = ("bool", *_INTS, *_FLOATS)
    return max(a, b, key=order.index)


# Layouts


def pointwise_layout(shape: tuple[int, ...], tensors: Sequence[TensorType]) -> Layout:
    """The layout that eager PyTorch gives a pointwise result of `shape`.

    Results are contiguous unless the rank is 4 or 5. The first operand with more than one channel
    and more than one pixel decides; a channels-last operand of the whole shape decides too.
    Operands of lower rank count as contiguous.
    """
    # With one channel or one pixel both layouts have the same order in memory, so such an operand
    # does not tell its layout.
    if len(shape) not in (4, 5) or all(t.layout is Layout.CONTIGUOUS for t in tensors):
        return Layout.CONTIGUOUS
    for operand in tensors:
        _, channels, *space = (*(1,) * (len(shape) - operand.rank), *operand.shape)
        spans = channels > 1 and max(space) > 1
        if spans or (operand.shape == shape and operand.layout is Layout.CHANNELS_LAST):
            return operand.layout if operand.rank == len(shape) else Layout.CONTIGUOUS
    return Layout.CONTIGUOUS


# Work


def flops_per_output(_: Bound, outputs: tuple[TensorType, ...]) -> int:
    """One FLOP for each element of the first result."""
    return outputs[0].numel


def flops_per_input(bound: Bound, _: tuple[TensorType, ...]) -> int:
    """One FLOP for each element of the parameter `input`."""
    read: TensorType = bound["input"]
    return read.numel


def flops_none(_: Bound, __: tuple[TensorType, ...]) -> int:
    """No FLOPs, because values are only moved."""
    return 0
