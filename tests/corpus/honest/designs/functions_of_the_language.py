# what: a function of triton.language is the constant that a kernel calls
# task: relu

import torch
import triton
import triton.language as tl


@triton.jit
def map_kernel(x, y, n, F: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, F(tl.load(x + i, i < n), 0.0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    map_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), F=tl.maximum, BLOCK=256)
    return [y]
