# what: rounds to half precision after every addition, as the reference does
# task: half_running_sum

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x, y, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float16)
    for column in range(columns):
        total = (total + tl.load(x + row * columns + column, row < rows, 0.0)).to(tl.float16)
    tl.store(y + row, total, row < rows)


def fused_operator(x):
    rows, columns = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    sum_kernel[(triton.cdiv(rows, 16),)](x.contiguous(), y, rows, columns, BLOCK=16)
    return [y]
