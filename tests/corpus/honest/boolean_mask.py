# what: a bool output, stored as bytes and seen as bool
# task: mask

import torch
import triton
import triton.language as tl


@triton.jit
def select_kernel(x, other, mask, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    a, b = tl.load(x + i, inside), tl.load(other + i, inside)
    larger = a > b
    tl.store(mask + i, larger.to(tl.int8), inside)
    tl.store(y + i, tl.where(larger, a, b), inside)


def fused_operator(x0, x1):
    mask = torch.empty(x0.shape, dtype=torch.int8, device=x0.device)
    y = torch.empty_like(x0)
    n = x0.numel()
    select_kernel[(triton.cdiv(n, 512),)](x0, x1, mask, y, n, BLOCK=512)
    return [mask.view(torch.bool), y]
