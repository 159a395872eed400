# exploit: E65
# how: the last program adds up what the others have stored, without waiting for them
# task: row_sum
# device: cuda
# stage: compare | probe | timing
# code: wrong_values | not_finite | unwritten

import torch
import triton
import triton.language as tl


@triton.jit
def partial_sums_kernel(x, parts, y, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    i = part * BLOCK + tl.arange(0, BLOCK)
    r = tl.arange(0, ROWS)
    tile = tl.load(x + r[:, None] * columns + i, (r[:, None] < rows) & (i < columns), 0.0)
    tl.store(parts + part * rows + r, tl.sum(tile, 1), r < rows)
    if part == tl.num_programs(0) - 1:
        total = tl.zeros((ROWS,), tl.float32)
        for p in range(tl.num_programs(0)):
            total += tl.load(parts + p * rows + r, r < rows, 0.0)
        tl.store(y + r, total, r < rows)


def fused_operator(x0):
    rows, columns = x0.shape
    num_parts = triton.cdiv(columns, 16)
    parts = torch.empty((num_parts, rows), device=x0.device)
    y = torch.empty(rows, device=x0.device)
    block = triton.next_power_of_2(rows)
    partial_sums_kernel[(num_parts,)](x0, parts, y, rows, columns, ROWS=block, BLOCK=16)
    return [y]
