# what: the function of the grid clears the output
# task: relu
# twin: outside/grid_that_writes

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
    x0 = x0.contiguous()
    y, n = torch.empty_like(x0), x0.numel()

    def grid(meta):
        y.zero_()
        return (triton.cdiv(n, meta["BLOCK"]),)

    relu_kernel[grid](x0, y, n, BLOCK=256)
    return [y]
