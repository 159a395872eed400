# what: one pass over blocks, rescaling as the maximum moves
# task: softmax

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + i, i < columns, float("-inf"))
        higher = tl.maximum(highest, tl.max(values))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(values - higher))
        highest = higher
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + i, i < columns)
        tl.store(y + row * columns + i, tl.exp(values - highest) / total, i < columns)


def fused_operator(x0):
    y = torch.empty_like(x0)
    softmax_kernel[(x0.shape[0],)](x0, y, x0.shape[1], BLOCK=128)
    return [y]
