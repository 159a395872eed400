# what: a function for constants computes the width of a block
# task: relu

import torch
import triton
import triton.language as tl


@triton.constexpr_function
def half(n):
    return n // 2


@triton.jit
def half_kernel(x, y, n, BLOCK: tl.constexpr):
    SIZE: tl.constexpr = half(BLOCK)
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    half_kernel[(triton.cdiv(x0.numel(), 128),)](x0, y, x0.numel(), BLOCK=256)
    return [y]
