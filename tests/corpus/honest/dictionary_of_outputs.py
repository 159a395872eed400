# what: a dict, as the reference returns
# task: dict_output

import torch
import triton
import triton.language as tl


@triton.jit
def parts_kernel(x, positive, negative, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n)
    tl.store(positive + i, tl.maximum(values, 0.0), i < n)
    tl.store(negative + i, tl.maximum(-values, 0.0), i < n)


def fused_operator(x0):
    both = torch.empty((2, *x0.shape), dtype=x0.dtype, device=x0.device)
    positive, negative = both
    grid = (triton.cdiv(x0.numel(), 512),)
    parts_kernel[grid](x0, positive, negative, x0.numel(), BLOCK=512)
    return {"positive": positive, "negative": negative}
