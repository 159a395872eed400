# what: the output is a small part of its storage
# task: relu
# twin: outside/part_of_a_large_storage

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
    y = torch.empty(n + (1 << 21), device=x0.device)[:n].view(x0.shape)
    relu_kernel[(triton.cdiv(n, 256),)](x0, y, n, BLOCK=256)
    return [y]
