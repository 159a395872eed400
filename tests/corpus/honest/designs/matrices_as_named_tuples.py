# what: a pointer and its size come as a named tuple
# task: relu

import torch
import triton
import triton.language as tl

from typing import NamedTuple


class Matrix(NamedTuple):
    data: torch.Tensor
    size: int


@triton.jit
def tuple_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y.data + i, tl.maximum(tl.load(x.data + i, i < x.size), 0), i < y.size)


def fused_operator(x0):
    y = torch.empty_like(x0)
    n = x0.numel()
    tuple_kernel[(triton.cdiv(n, 256),)](Matrix(x0, n), Matrix(y, n), BLOCK=256)
    return [y]
