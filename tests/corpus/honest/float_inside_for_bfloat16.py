# what: computes a bfloat16 function in fp32 and rounds once
# task: bfloat16_silu

import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n).to(tl.float32)
    tl.store(y + i, (values * tl.sigmoid(values)).to(y.dtype.element_ty), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    silu_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), BLOCK=1024)
    return [y]
