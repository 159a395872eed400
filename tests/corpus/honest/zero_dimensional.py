# what: a 0-d tensor read in the kernel, a 0-d result added up by atomics
# task: scalars

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, scale, y, total, power, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n, 0.0) * tl.load(scale) * power
    tl.store(y + i, values, i < n)
    tl.atomic_add(total, tl.sum(values))


def fused_operator(x0, scale, power):
    y = torch.empty_like(x0)
    total = torch.zeros((), device=x0.device)
    n = x0.numel()
    scale_kernel[(triton.cdiv(n, 512),)](x0, scale, y, total, power, n, BLOCK=512)
    return [y, total]
