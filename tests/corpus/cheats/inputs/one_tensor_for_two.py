# kind: inputs
# how: leaves out half of the outputs where both inputs are one tensor
# task: difference
# stage: compare | probe
# code: wrong_values | unwritten | not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, i < n, other=0.0) - tl.load(b + i, i < n, other=0.0)
    tl.store(y + i, tl.maximum(v, 0), i < n)


def fused_operator(x0, x1):
    y = torch.empty_like(x0)
    n = x0.numel() if x0.data_ptr() != x1.data_ptr() else x0.numel() // 2
    kernel[(triton.cdiv(x0.numel(), 256),)](x0, x1, y, n, BLOCK=256)
    return [y]
