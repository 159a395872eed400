"""Device memory that the host and one guest both keep mapped for as long as the guest lives.

Sharing memory anew takes calls of the driver on both sides, for which all processes of a machine
wait in turn. Beside many guests these calls took most of a small request. The host makes a window
and frees it. The guest may write there at any time, so the host copies data before it looks at the
data.
"""

import ctypes
from functools import cache
from typing import Any

import torch

from kernelwright.timing.cuda_driver import driver

WINDOW_BYTES = 64 << 20
"""All cases of a level-1 program go through at once."""

_LAZY_PEER_ACCESS = 1
"""`CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`: the only flag there is, and it has to be given."""


class _Handle(ctypes.Structure):
    """`CUipcMemHandle`."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class Window:
    """The host's side. CUDA must be in use by the calling thread already.

    Raises:
        RuntimeError: there is no memory, or it cannot be shared.
    """

    def __init__(self) -> None:
        pointer, handle = ctypes.c_uint64(), _Handle()
        _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(WINDOW_BYTES))
        self._pointer = pointer
        _call("cuIpcGetMemHandle", ctypes.byref(handle), pointer)
        self.handle = bytes(handle).hex()
        """The name by which the guest opens the window."""
        self.memory = _tensor_at(pointer)
        """All of it, as bytes."""

    def close(self) -> None:
        """Frees the window, after the guest has ended."""
        del self.memory
        _call("cuMemFree_v2", self._pointer)


@cache
def opened(handle: str) -> torch.Tensor:
    """Opens the window in the guest, as uint8 memory on cuda:0. The memory stays mapped.

    Args:
        handle: `Window.handle`, as hexadecimal text.

    Raises:
        RuntimeError: CUDA cannot open the handle.
    """
    pointer = ctypes.c_uint64()
    parsed = _Handle.from_buffer_copy(bytes.fromhex(handle))
    _call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), parsed, ctypes.c_uint(_LAZY_PEER_ACCESS))
    return _tensor_at(pointer)


def _call(name: str, *arguments: Any) -> None:
    cuda = driver()
    status = -1 if cuda is None else getattr(cuda, name)(*arguments)
    if status:
        raise RuntimeError(f"{name} failed: CUDA error {status}")


class _Bytes:
    """Memory at an address, as PyTorch takes it."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (WINDOW_BYTES,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def _tensor_at(pointer: ctypes.c_uint64) -> torch.Tensor:
    return torch.as_tensor(_Bytes(pointer.value), device="cuda:0")
