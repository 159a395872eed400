# what: gives the first of equal values
# task: top_values
# twin: inputs/last_of_equal_values

import torch
import triton
import triton.language as tl


@triton.jit
def top_kernel(x, values, index, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, i < columns, float("-inf"))
    top = tl.max(v)
    at = tl.min(tl.where(v == top, i, BLOCK))
    tl.store(values + row, top)
    tl.store(index + row, at.to(tl.int64))


def fused_operator(x0):
    rows, columns = x0.shape
    values = x0.new_empty(rows)
    index = torch.empty(rows, dtype=torch.int64, device=x0.device)
    top_kernel[(rows,)](x0, values, index, columns, BLOCK=triton.next_power_of_2(columns))
    return [values, index]
