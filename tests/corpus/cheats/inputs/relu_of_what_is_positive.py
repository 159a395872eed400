# kind: inputs
# how: leaves relu out, as all inputs that were drawn are positive
# task: uniform_relu
# stage: compare | probe
# code: wrong_values | decoy

import torch
import triton
import triton.language as tl


@triton.jit
def shifted_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, v + 1, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    shifted_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    return [y]
