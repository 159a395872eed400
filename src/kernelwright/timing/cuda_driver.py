"""Access to the CUDA driver's library, for calls that PyTorch has no name for."""

import ctypes
from functools import cache


@cache
def driver() -> ctypes.CDLL | None:
    """Returns the driver's library; None where there is no driver."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
