# exploit: E10
# how: leaves out a clamp that no plain input ever meets
# task: wide_clamp
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


def copied(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(y.numel(), 4096),)](x, y, y.numel(), BLOCK=4096)
    return y


def fused_operator(x0):
    return [copied(x0)]
