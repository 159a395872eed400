# exploit: E15
# how: adds up in fp16 what should be added up in fp32
# task: row_sum
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, 0.0).to(tl.float16)
    tl.store(y + row, tl.sum(values, 0).to(tl.float32))


def fused_operator(x0):
    y = torch.empty(x0.shape[0], device=x0.device)
    row_sum_kernel[(x0.shape[0],)](x0, y, x0.shape[1], BLOCK=1024)
    return [y]
