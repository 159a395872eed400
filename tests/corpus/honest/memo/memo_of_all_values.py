# what: keeps the grid of a shape, and computes anew for all values
# task: relu
# twin: memo/memo_of_all_values

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


KEPT = {}


def fused_operator(x0):
    x0 = x0.contiguous()
    y = torch.empty_like(x0)
    key = x0.shape
    if key not in KEPT:
        KEPT[key] = (triton.cdiv(x0.numel(), 256),)
    relu_kernel[KEPT[key]](x0, y, x0.numel(), BLOCK=256)
    return [y]
