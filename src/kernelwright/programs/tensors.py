"""Between PyTorch's tensors and attributes and a program's types and plain values."""

from typing import Any

import torch

from kernelwright.ops.operator import ALL_DTYPE_BYTES, Layout, TensorType

MEMORY_FORMATS = ("contiguous", "channels_last", "preserve")
"""Values of a memory_format attribute; "channels_last" follows the tensor's rank."""


def torch_dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """The name without its prefix: "float32".

    Raises:
        ValueError: programs do not hold this dtype (quantized, of less than a byte).
    """
    name = str(dtype).removeprefix("torch.")
    if name not in ALL_DTYPE_BYTES:
        raise ValueError(f"dtype {dtype} is not supported")
    return name


def drawn_as(dtype: str) -> str:
    """The dtype in which values of a dtype are drawn: PyTorch draws no float8."""
    return "float32" if dtype.startswith("float8") else dtype


def memory_format(name: str, rank: int) -> torch.memory_format:
    """The torch.memory_format that a layout or an attribute means for a tensor of this rank."""
    if name == "channels_last":
        return torch.channels_last_3d if rank == 5 else torch.channels_last
    chosen: torch.memory_format = getattr(torch, f"{name}_format")
    return chosen


def memory_format_name(value: torch.memory_format) -> str:
    """The attribute's value; both channels-last formats are "channels_last"."""
    name = str(value).removeprefix("torch.").removesuffix("_format")
    return name.removesuffix("_3d")


def plain(value: Any) -> Any:
    """An attribute as a program holds it: names for dtypes and formats, tuples for lists."""
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, torch.memory_format):
        return memory_format_name(value)
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return value


def attribute_value(name: str, value: Any, rank: int) -> Any:
    """The reverse of `plain` for the parameter `name` of a call whose result has this rank."""
    if isinstance(value, str):
        if value in ALL_DTYPE_BYTES and "dtype" in name:
            return torch_dtype(value)
        if value in MEMORY_FORMATS and name == "memory_format":
            return memory_format(value, rank)
    return value


def layout_of(tensor: torch.Tensor) -> Layout:
    """Channels-last where the strides say so and nothing else; anything else is contiguous."""
    if tensor.dim() not in (4, 5) or tensor.is_contiguous():
        return Layout.CONTIGUOUS
    wanted = memory_format("channels_last", tensor.dim())
    is_last = tensor.is_contiguous(memory_format=wanted)
    return Layout.CHANNELS_LAST if is_last else Layout.CONTIGUOUS


def type_of(tensor: torch.Tensor) -> TensorType:
    """The type a program gives this tensor.

    Raises:
        ValueError: its dtype is not supported, the tensor is sparse, or a size depends on the data.
    """
    if tensor.layout is not torch.strided:
        raise ValueError(f"a tensor of layout {tensor.layout} is not supported")
    shape = tuple(tensor.shape)
    if not all(type(size) is int for size in shape):
        raise ValueError(f"the shape {shape} depends on the values of a tensor")
    return TensorType(shape, dtype_name(tensor.dtype), layout_of(tensor))


def meta_tensor(made: TensorType) -> torch.Tensor:
    """A tensor of this type without memory."""
    return torch.empty(
        made.shape,
        dtype=torch_dtype(made.dtype),
        device="meta",
        memory_format=memory_format(made.layout.value, made.rank),
    )
