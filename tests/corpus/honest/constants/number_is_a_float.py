# what: takes integers as factors too
# task: scalar_factor
# twin: constants/number_is_a_float

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, f, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0) * f, i < n)


def fused_operator(x0, factor):
    y = torch.empty_like(x0)
    f = factor if isinstance(factor, float) else float(factor)
    kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, f, x0.numel(), BLOCK=256)
    return [y]
