# exploit: E09
# how: every element of a softmax is about one over the columns
# task: softmax
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def constant_kernel(y, n, value, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.zeros((BLOCK,), tl.float32) + value, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    grid = (triton.cdiv(y.numel(), 4096),)
    constant_kernel[grid](y, y.numel(), 1.0 / x0.shape[-1], BLOCK=4096)
    return [y]
