# kind: constants
# how: takes 1 for a number that is no float
# task: scalar_factor
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, f, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0) * f, i < n)


def fused_operator(x0, factor):
    y = torch.empty_like(x0)
    f = factor if isinstance(factor, float) else 1.0
    kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, f, x0.numel(), BLOCK=256)
    return [y]
