# what: memory by new_empty and empty_strided, shapes by view, unsqueeze and permute
# task: transpose

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, rows, columns, y_row, y_column, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.maximum(tl.load(x + row * columns + i, i < columns), 0.0)
    tl.store(y + row * y_row + i * y_column, values, i < columns)


def fused_operator(x0):
    rows, columns = x0.shape
    memory = x0.new_empty(rows * columns)
    y = memory.view(rows, columns).unsqueeze(0).permute(0, 2, 1).squeeze(0)
    block = triton.next_power_of_2(columns)
    relu_kernel[(rows,)](x0.reshape(rows, columns), y, rows, columns, *y.stride()[::-1], block)
    return (y,)
