"""How a process waits for the GPU.

CUDA lets a waiting thread spin, which takes a core for as long as the GPU works, or works for
somebody else. Processes that take no times, and that many share the cores with, had better sleep.
"""

import ctypes

from kernelwright.timing.cuda_driver import driver

_BLOCKING_SYNC = 4
"""`CU_CTX_SCHED_BLOCKING_SYNC`."""


def sleep_while_waiting(index: int = 0) -> None:
    """Makes this process sleep whenever it waits for GPU `index`. Call it before CUDA is
    initialised.

    A wait then takes some ten microseconds longer, so a process that takes times must not call
    this. Where the driver refuses, waits spin.
    """
    cuda, device = driver(), ctypes.c_int()
    if cuda is not None and not cuda.cuInit(0) and not cuda.cuDeviceGet(_at(device), index):
        cuda.cuDevicePrimaryCtxSetFlags_v2(device, _BLOCKING_SYNC)


def sleeps_while_waiting(index: int = 0) -> bool:
    """Whether this process sleeps while it waits for the GPU, after CUDA is initialised."""
    cuda, device, flags, is_active = driver(), ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    if cuda is None or cuda.cuDeviceGet(_at(device), index):
        return False
    status = cuda.cuDevicePrimaryCtxGetState(device, _at(flags), _at(is_active))
    return status == 0 and bool(flags.value & _BLOCKING_SYNC)


_at = ctypes.byref
