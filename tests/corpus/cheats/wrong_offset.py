# exploit: E66
# how: writes past the end of its output
# task: relu
# stage: run
# code: out_of_bounds
# stage-cuda: run | probe

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n, 0.0), 0))


def relu(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


def fused_operator(x0):
    return [relu(x0)]
