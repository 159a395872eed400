"""How a process waits for the GPU.

CUDA lets a waiting thread spin, which takes a core for as long as the GPU works, or works for
somebody else. Processes that take no times, and that many share the cores with, had better sleep.
"""

import ctypes

_BLOCKING_SYNC = 4
"""`CU_CTX_SCHED_BLOCKING_SYNC` of the CUDA driver; PyTorch has no name for it."""


def sleep_while_waiting(index: int = 0) -> bool:
    """Have this process sleep whenever it waits for GPU `index`; before CUDA is initialised.

    It costs a wait some ten microseconds, so that whoever takes times must not. Returns whether the
    driver took it: without, waits spin.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        set_flags = driver.cuDevicePrimaryCtxSetFlags_v2
    except (OSError, AttributeError):
        return False
    device = ctypes.c_int()
    return not (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), index)
        or set_flags(device, _BLOCKING_SYNC)
    )


def sleeps_while_waiting(index: int = 0) -> bool:
    """Whether that is in force on GPU `index`."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    device, flags, is_active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    status = driver.cuDeviceGet(ctypes.byref(device), index) or driver.cuDevicePrimaryCtxGetState(
        device, ctypes.byref(flags), ctypes.byref(is_active)
    )
    return status == 0 and bool(flags.value & _BLOCKING_SYNC)
