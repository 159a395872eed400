# what: two kernels, a tuple
# task: two_outputs

import torch
import triton
import triton.language as tl


@triton.jit
def exp_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.exp(tl.load(x + i, i < n)), i < n)


@triton.jit
def neg_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, -tl.load(x + i, i < n), i < n)


def fused_operator(x0):
    first, second = torch.empty_like(x0), torch.empty_like(x0)
    grid = (triton.cdiv(x0.numel(), 4096),)
    exp_kernel[grid](x0, first, x0.numel(), BLOCK=4096)
    neg_kernel[grid](x0, second, x0.numel(), BLOCK=4096)
    return first, second
