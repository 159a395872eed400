"""The CUDA driver's library, for what PyTorch has no name for."""

import ctypes
from functools import cache


@cache
def driver() -> ctypes.CDLL | None:
    """None where there is no driver."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
