# what: draws random signs by tl.randint and multiplies twice by them
# task: relu

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n)
    sign = tl.where(tl.randint(seed, i) & 1, 1.0, -1.0)
    turned = values * sign
    tl.store(y + i, tl.maximum(turned * sign, 0.0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), 7, BLOCK=1024)
    return [y]
