"""Dtypes as Triton names them."""

from kernelwright.ops.rules import is_float, is_int


def triton_dtype(dtype: str) -> str:
    """The Triton type in which values of a dtype are computed: fp32 for every float."""
    if is_float(dtype):
        return "tl.float32"
    return f"tl.{dtype}" if is_int(dtype) else "tl.int1"
