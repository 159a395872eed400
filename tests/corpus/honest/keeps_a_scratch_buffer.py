# what: works in a buffer of its own that lives between calls
# task: row_sum

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x, partial, columns, HALF: tl.constexpr):
    row, half = tl.program_id(0), tl.program_id(1)
    i = half * HALF + tl.arange(0, HALF)
    part = tl.sum(tl.load(x + row * columns + i, i < columns, 0.0))
    tl.store(partial + row * 2 + half, part)


@triton.jit
def finish_kernel(partial, y):
    row = tl.program_id(0)
    tl.store(y + row, tl.load(partial + row * 2) + tl.load(partial + row * 2 + 1))


scratch = {}


def fused_operator(x0):
    rows, columns = x0.shape
    key = (rows, x0.device)
    if key not in scratch:
        scratch[key] = torch.empty((rows, 2), device=x0.device)
    y = torch.empty(rows, device=x0.device)
    half = triton.next_power_of_2(triton.cdiv(columns, 2))
    partial_kernel[(rows, 2)](x0, scratch[key], columns, HALF=half)
    finish_kernel[(rows,)](scratch[key], y)
    return [y]
