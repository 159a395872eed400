"""Guest side: the size of the part of the L2 cache for lines that a flush does not reach."""

import ctypes
from functools import cache

import torch

_PERSISTING_L2_CACHE_SIZE = 6
"""`cudaLimitPersistingL2CacheSize` of the CUDA runtime; PyTorch has no name for it."""


def persisting_l2_bytes() -> int | None:
    """Returns the device's present limit in bytes; None where the CUDA runtime cannot be asked."""
    runtime = _runtime()
    size = ctypes.c_size_t()
    if runtime is None:
        return None
    status = runtime.cudaDeviceGetLimit(ctypes.byref(size), _PERSISTING_L2_CACHE_SIZE)
    return size.value if status == 0 else None


@cache
def _runtime() -> ctypes.CDLL | None:
    """The library that PyTorch has loaded already."""
    major = (torch.version.cuda or "").partition(".")[0]
    try:
        return ctypes.CDLL(f"libcudart.so.{major}")
    except OSError:
        return None
