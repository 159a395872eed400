# what: gives 0 for 0
# task: signs
# twin: inputs/sign_without_zero

import torch
import triton
import triton.language as tl


@triton.jit
def sign_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, tl.where(v < 0, -1.0, tl.where(v > 0, 1.0, 0.0)), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    sign_kernel[(triton.cdiv(x0.numel(), 128),)](x0, y, x0.numel(), BLOCK=128)
    return [y]
