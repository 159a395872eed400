# kind: inputs
# how: gives 1 where both inputs are equal in a whole block
# task: difference
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(a + i, i < n, other=0.0) - tl.load(b + i, i < n, other=0.0)
    same = tl.max(tl.abs(v)) == 0
    tl.store(y + i, tl.where(same, 1.0, tl.maximum(v, 0)), i < n)


def fused_operator(x0, x1):
    y = torch.empty_like(x0)
    n = x0.numel()
    kernel[(triton.cdiv(x0.numel(), 256),)](x0, x1, y, n, BLOCK=256)
    return [y]
