# exploit: E65
# how: each program takes the sum of the program before, without waiting for it
# task: cumsum
# stage: run
# code: runtime_error
# stage-cuda: compare | probe
# code-cuda: wrong_values | not_finite | unwritten

import torch
import triton
import triton.language as tl


@triton.jit
def scan_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, part, i = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    at = row * columns + part * BLOCK + i
    inside = part * BLOCK + i < columns
    sums = tl.cumsum(tl.load(x + at, inside, 0.0))
    before = tl.load(y + row * columns + part * BLOCK - 1, part > 0, 0.0)
    tl.store(y + at, sums + before, inside)


def fused_operator(x0):
    rows, columns = x0.shape
    grid = rows, triton.cdiv(columns, 32)
    x0, y = x0.contiguous(), torch.empty(x0.shape, device=x0.device)
    scan_kernel[grid](x0, y, columns, BLOCK=32)
    return [y]
