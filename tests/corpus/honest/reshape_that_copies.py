# what: flattens inputs that are not contiguous, which copies them
# task: strided

import torch
import triton
import triton.language as tl


@triton.jit
def add_relu_kernel(a, b, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(a + i, i < n) + tl.load(b + i, i < n)
    tl.store(y + i, tl.maximum(total, 0.0), i < n)


def fused_operator(x0, x1):
    a, b = x0.reshape(-1), x1.reshape(-1)
    y = torch.empty_like(a)
    add_relu_kernel[(triton.cdiv(y.numel(), 256),)](a, b, y, y.numel(), BLOCK=256)
    return [y.reshape(x0.shape)]
