# exploit: E67
# how: offsets overflow beyond 2^31 elements
# task: bfloat16_relu
# device: cuda
# large: yes
# stage: compare | run | probe
# code: wrong_values | out_of_bounds | unwritten | crashed

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def relu(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 8192),)](x, y, x.numel(), BLOCK=8192)
    return y


def fused_operator(x0):
    return [relu(x0)]
