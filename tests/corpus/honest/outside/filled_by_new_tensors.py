# what: the last values are copies of a new tensor of one value
# task: relu
# twin: outside/filled_by_new_tensors

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
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    x0, n = x0.contiguous(), x0.numel()
    y = torch.empty_like(x0)
    values = (0.0, 1.0, 2.0)
    for place, value in zip(y.view(-1)[1:].unbind(), values[1:], strict=False):
        place.fill_(y.new_full((), value))
    relu_kernel[(triton.cdiv(n, 256),)](x0, y, n, BLOCK=256)
    return [y]
