# what: stores 1 for true
# task: mask
# twin: state/mask_of_other_bytes

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, m, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(a + i, i < n, other=0.0)
    v = tl.load(b + i, i < n, other=0.0)
    tl.store(m + i, tl.where(u > v, 1, 0).to(tl.uint8), i < n)
    tl.store(y + i, tl.where(u > v, u, v), i < n)


def fused_operator(x0, x1):
    m = torch.empty(x0.shape, dtype=torch.bool, device=x0.device)
    y = torch.empty_like(x0)
    kernel[(triton.cdiv(x0.numel(), 256),)](x0, x1, m.view(torch.uint8), y, x0.numel(), BLOCK=256)
    return [m, y]
