# what: try around the launch, another Triton kernel in the handler
# task: softmax

import torch
import triton
import triton.language as tl


@triton.jit
def whole_row_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, float("-inf"))
    powers = tl.exp(values - tl.max(values))
    tl.store(y + row * columns + i, powers / tl.sum(powers), i < columns)


@triton.jit
def looped_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    highest, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + i, i < columns, float("-inf"))
        higher = tl.maximum(highest, tl.max(values))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(values - higher))
        highest = higher
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + i, i < columns)
        tl.store(y + row * columns + i, tl.exp(values - highest) / total, i < columns)


def fused_operator(x0):
    y = torch.empty_like(x0)
    rows, columns = x0.shape
    try:
        whole_row_kernel[(rows,)](x0, y, columns, BLOCK=triton.next_power_of_2(columns))
    except (triton.runtime.errors.OutOfResources, triton.CompilationError):
        looped_kernel[(rows,)](x0, y, columns, BLOCK=256)
    return [y]
