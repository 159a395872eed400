# what: Kahan's sum over strips of columns
# task: row_sum

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    lost = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + i, i < columns, 0.0) - lost
        grown = total + value
        lost = (grown - total) - value
        total = grown
    tl.store(y + row, tl.sum(total - lost))


def fused_operator(x0):
    rows, columns = x0.shape
    y = torch.empty(rows, device=x0.device)
    sum_kernel[(rows,)](x0, y, columns, BLOCK=64)
    return [y]
