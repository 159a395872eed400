# what: sums in fp64 and rounds once
# task: row_sum

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, 0.0).to(tl.float64)
    tl.store(y + row, tl.sum(values).to(tl.float32))


def fused_operator(x0):
    rows, columns = x0.shape
    y = torch.empty(rows, device=x0.device)
    sum_kernel[(rows,)](x0, y, columns, BLOCK=triton.next_power_of_2(columns))
    return [y]
