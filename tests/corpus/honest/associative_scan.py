# what: prefix sums by tl.associative_scan with a combine of its own
# task: cumsum

import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def cumsum_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, 0.0)
    sums = tl.associative_scan(values, 0, add)
    tl.store(y + row * columns + i, sums, i < columns)


def fused_operator(x0):
    y = torch.empty_like(x0)
    rows, columns = x0.shape
    cumsum_kernel[(rows,)](x0, y, columns, BLOCK=triton.next_power_of_2(columns))
    return [y]
