# what: erf from libdevice
# task: gelu

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n)
    tl.store(y + i, 0.5 * values * (1 + libdevice.erf(values * 0.7071067811865476)), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    gelu_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), BLOCK=1024)
    return [y]
