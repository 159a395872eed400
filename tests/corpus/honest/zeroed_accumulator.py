# what: torch.zeros and atomics from several programs a row
# task: row_sum

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, 0.0)
    tl.atomic_add(y + row, tl.sum(values), sem="relaxed")


def fused_operator(x0):
    rows, columns = x0.shape
    y = torch.zeros(rows, device=x0.device)
    sum_kernel[(rows, triton.cdiv(columns, 128))](x0, y, columns, BLOCK=128)
    return [y]
