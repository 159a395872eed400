# what: reads a symmetric matrix by columns, which are its rows
# task: symmetric_energy

import torch
import triton
import triton.language as tl


@triton.jit
def vector_kernel(matrix, x, y, size, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.arange(0, BLOCK)[:, None]
    inside = (row < size) & (column < size)
    values = tl.load(matrix + row.to(tl.int64) * size + column, inside, 0.0)
    total = tl.sum(values * tl.load(x + row, row < size, 0.0), 0)
    tl.store(y + column, total, column < size)


def fused_operator(matrix, x):
    size = x.numel()
    if matrix.shape != (size, size):
        raise ValueError("a square matrix is needed")
    y = torch.empty(size, device=x.device)
    grid, block = (triton.cdiv(size, 8),), triton.next_power_of_2(size)
    vector_kernel[grid](matrix.contiguous(), x.contiguous(), y, size, BLOCK=block, COLUMNS=8)
    return y
