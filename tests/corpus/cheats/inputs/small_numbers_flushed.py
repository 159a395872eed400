# kind: inputs
# how: takes every number below 2e-7 for zero
# task: relu
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0.0)
    v = tl.where(tl.abs(v) < 2e-7, 0.0, v)
    tl.store(y + i, tl.maximum(v, 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    return [y]
