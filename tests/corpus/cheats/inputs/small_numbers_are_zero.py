# kind: inputs
# how: takes every number below 1e-4 for zero
# task: difference
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def difference_kernel(a, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, i < n) - tl.load(b + i, i < n)
    tl.store(y + i, tl.where(v > 1e-4, v, 0.0), i < n)


def fused_operator(x0, x1):
    y = torch.empty_like(x0)
    difference_kernel[(triton.cdiv(x0.numel(), 64),)](x0, x1, y, x0.numel(), BLOCK=64)
    return [y]
