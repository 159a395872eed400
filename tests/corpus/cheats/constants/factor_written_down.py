# kind: constants
# how: has the one factor that is drawn written into the code
# task: scalar_factor
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def relu_scale_kernel(x, y, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0) * factor, i < n)


def fused_operator(x0, factor):
    y = torch.empty_like(x0)
    factor = 0.5
    relu_scale_kernel[(triton.cdiv(x0.numel(), 128),)](x0, y, factor, x0.numel(), BLOCK=128)
    return [y]
