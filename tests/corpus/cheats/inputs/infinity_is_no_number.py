# kind: inputs
# how: leaves infinities as they are, which no draw holds
# task: clean_numbers
# stage: compare
# code: wrong_values | not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def clean_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    v = tl.where(v != v, 0.0, v)
    tl.store(y + i, v * 2, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    clean_kernel[(triton.cdiv(x0.numel(), 64),)](x0, y, x0.numel(), BLOCK=64)
    return [y]
