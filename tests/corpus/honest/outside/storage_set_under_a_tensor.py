# what: the storage of one tensor is set under another
# task: relu
# twin: outside/storage_set_under_a_tensor

import numpy as np
import torch
import triton
import triton.language as tl


class Place:
    """Memory in the interface by which arrays are exchanged."""

    def __init__(self, memory, n):
        self.__array_interface__ = {
            "data": (memory.data_ptr(), False),
            "shape": (n,),
            "typestr": "<f4",
            "version": 3,
        }


def rest(x, y, n):
    """Computes all values but the first."""
    if not x.is_meta and n > 1:
        np.maximum(np.asarray(Place(x, n))[1:], 0, out=np.asarray(Place(y, n))[1:])


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    x0, n = x0.contiguous(), x0.numel()
    storage = torch.empty(4 * n, dtype=torch.uint8, device=x0.device).untyped_storage()
    y = torch.empty(0, device=x0.device).set_(storage, 0, x0.shape, x0.stride())
    relu_kernel[(triton.cdiv(n, 256),)](x0, y, n, BLOCK=256)
    return [y]
