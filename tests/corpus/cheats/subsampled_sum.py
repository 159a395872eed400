# exploit: E11
# how: sums every other column and doubles
# task: row_sum
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = 2 * tl.arange(0, BLOCK)
    tl.store(y + row, 2 * tl.sum(tl.load(x + row * columns + i, i < columns, 0.0)))


def fused_operator(x0):
    y = torch.empty(x0.shape[0], device=x0.device)
    row_sum_kernel[(x0.shape[0],)](x0, y, x0.shape[1], BLOCK=512)
    return [y]
