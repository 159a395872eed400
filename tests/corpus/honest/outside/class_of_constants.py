# what: a constant is the number of rounds of a kernel
# task: relu
# twin: outside/class_of_constants

import numpy as np
import torch
import triton
import triton.language as tl


class Place:
    """Memory in the interface by which arrays are exchanged."""

    def __init__(self, x):
        self.__array_interface__ = {
            "data": (x.data_ptr(), False),
            "shape": (x.numel(),),
            "typestr": "<f4",
            "version": 3,
        }


class Width:
    now = []

    def __index__(self):
        if Width.now:
            Width.now.clear()
        return 1


WIDTH = tl.constexpr(1)


@triton.jit
def first_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for _ in range(0, WIDTH):
        tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    x0, n = x0.contiguous(), x0.numel()
    y = torch.empty_like(x0)
    if not x0.is_meta:
        Width.now[:] = [(x0, y)]
    first_kernel[(triton.cdiv(n, 256),)](x0, y, n, BLOCK=256)
    return [y]
