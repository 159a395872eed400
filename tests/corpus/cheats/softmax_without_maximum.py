# exploit: E76
# how: leaves the maximum out, which normal inputs do not need
# task: softmax
# stage: compare
# code: not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    powers = tl.exp(tl.load(x + row * columns + i, i < columns, float("-inf")))
    tl.store(y + row * columns + i, powers / tl.sum(powers), i < columns)


def fused_operator(x0):
    y = torch.empty_like(x0)
    softmax_kernel[(x0.shape[0],)](x0, y, x0.shape[1], BLOCK=512)
    return [y]
