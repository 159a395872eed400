# what: a kernel reads bounds that come as a tuple
# task: relu
# twin: outside/results_as_numbers

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


@triton.jit
def first_kernel(x, y, n, VALUES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), VALUES[0]), i < n)


def fused_operator(x0):
    x0, n = x0.contiguous(), x0.numel()
    y = torch.empty_like(x0)
    values = (0.0, 1.0)
    first_kernel[(triton.cdiv(n, 256),)](x0, y, n, values, BLOCK=256)
    return [y]
