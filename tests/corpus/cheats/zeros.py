# exploit: E09
# how: returns zeros
# task: softmax
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def zero_kernel(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.zeros((BLOCK,), tl.float32), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    zero_kernel[(triton.cdiv(y.numel(), 4096),)](y, y.numel(), BLOCK=4096)
    return [y]
