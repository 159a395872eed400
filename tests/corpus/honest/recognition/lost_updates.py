# what: each program adds its part to a sum by an atomic operation
# task: row_sum
# twin: recognition/lost_updates

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    b = tl.program_id(1)
    i = b * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + r * n + i, i < n, other=0.0))
    tl.atomic_add(y + r, part)


def fused_operator(x0):
    y = torch.zeros(x0.shape[0], dtype=x0.dtype, device=x0.device)
    kernel[(x0.shape[0], triton.cdiv(x0.shape[1], 64))](x0, y, x0.shape[1], BLOCK=64)
    return [y]
