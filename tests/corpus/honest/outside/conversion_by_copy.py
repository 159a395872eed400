# what: the kernel rounds, and copy_ moves
# task: half_scale
# twin: outside/conversion_by_copy

import torch
import triton
import triton.language as tl


@triton.jit
def tanh_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    e = tl.exp(-2 * tl.abs(v))
    t = (1 - e) / (1 + e)
    tl.store(y + i, tl.where(v < 0, -t, t) * 4, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0, dtype=torch.float16)
    tanh_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    half = torch.empty_like(x0, dtype=torch.float16)
    half.copy_(y)
    return [half]
