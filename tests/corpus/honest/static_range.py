# what: an unrolled loop over parts, written with tl.static_range
# task: two_outputs

import torch
import triton
import triton.language as tl


@triton.jit
def parts_kernel(x, exp, neg, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    for part in tl.static_range(PARTS):
        i = (tl.program_id(0) * PARTS + part) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + i, i < n)
        tl.store(exp + i, tl.exp(values), i < n)
        tl.store(neg + i, -values, i < n)


def fused_operator(x0):
    exp, neg = torch.empty_like(x0), torch.empty_like(x0)
    grid = (triton.cdiv(x0.numel(), 4 * 256),)
    parts_kernel[grid](x0, exp, neg, x0.numel(), PARTS=4, BLOCK=256)
    return [exp, neg]
