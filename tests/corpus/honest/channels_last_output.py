# what: keeps the reference's channels-last layout
# task: channels_last

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    x = x0.contiguous(memory_format=torch.channels_last)
    y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return [y]
