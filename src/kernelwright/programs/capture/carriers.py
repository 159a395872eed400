"""Carriers: how tensors of rare dtypes go into and out of a program.

Inside a program, extern calls may make and read complex, float8 and wide unsigned values. Records,
draws and comparisons do not know these dtypes. So inputs and outputs of a program are *carriers*:
pairs of real numbers for complex values, a wider dtype or the same bits for others. The conversion
changes no value.
"""

import torch

from kernelwright.ops.operator import DTYPE_BYTES
from kernelwright.programs.tensors import dtype_name, torch_dtype

PAIRS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_WIDER = {
    "float8_e4m3fn": "float32", "float8_e5m2": "float32", "float8_e4m3fnuz": "float32",
    "float8_e5m2fnuz": "float32", "float8_e8m0fnu": "float32",
    "uint16": "int32", "uint32": "int64",
}  # fmt: skip
_SAME_BITS = {"uint64": "int64"}
Step = tuple[str, dict[str, str]]
"""An extern call on one value: its overload, and its arguments beside the value."""


def is_carried(name: str) -> bool:
    """Whether values of this dtype enter and leave a program as carriers."""
    return name not in DTYPE_BYTES


def carried(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or its carrier if the program cannot take its dtype."""
    name = dtype_name(tensor.dtype)
    if name in PAIRS:
        return torch.view_as_real(tensor.resolve_conj())
    if name in _SAME_BITS:
        return tensor.view(torch_dtype(_SAME_BITS[name]))
    return tensor.to(torch_dtype(_WIDER[name])) if name in _WIDER else tensor


def restored(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The tensor of dtype `name` that a carrier holds."""
    if name in PAIRS:
        return torch.view_as_complex(tensor.contiguous())
    dtype = torch_dtype(name)
    return tensor.view(dtype) if name in _SAME_BITS else tensor.to(dtype)


def restored_text(carrier: str, name: str) -> str:
    """The source text of `restored(carrier, name)`."""
    if name in PAIRS:
        return f"torch.view_as_complex({carrier}.contiguous())"
    return f"{carrier}.{'view' if name in _SAME_BITS else 'to'}(torch.{name})"


def carried_text(tensor: str, name: str) -> str:
    """The source text of `carried(tensor)`, for a tensor of dtype `name`."""
    if name in PAIRS:
        return f"torch.view_as_real({tensor}.resolve_conj())"
    if name in _SAME_BITS:
        return f"{tensor}.view(torch.{_SAME_BITS[name]})"
    return f"{tensor}.to(torch.{_WIDER[name]})"


def into_program(name: str) -> Step:
    """The extern call that makes a value of this dtype from its carrier."""
    if name in PAIRS:
        return "aten.view_as_complex.default", {}
    packet = "aten.view.dtype" if name in _SAME_BITS else "aten._to_copy.default"
    return packet, {"dtype": name}


def out_of_program(name: str) -> tuple[Step, ...]:
    """The extern calls that make the carrier of a value of this dtype."""
    if name in PAIRS:
        return ("aten.resolve_conj.default", {}), ("aten.view_as_real.default", {})
    if name in _SAME_BITS:
        return (("aten.view.dtype", {"dtype": _SAME_BITS[name]}),)
    return (("aten._to_copy.default", {"dtype": _WIDER[name]}),)
