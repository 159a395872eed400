# what: the library sorts, the kernel picks the limits and clamps
# task: winsorised_rows
# mode: hybrid

import torch
import triton
import triton.language as tl


@triton.jit
def clamp_kernel(x, ordered, y, columns, k, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64) * columns, tl.arange(0, BLOCK)
    low, high = tl.load(ordered + row + k), tl.load(ordered + row + columns - k - 1)
    value = tl.load(x + row + i, i < columns, 0.0)
    value = tl.maximum(value, low, propagate_nan=tl.PropagateNan.ALL)
    value = tl.minimum(value, high, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y + row + i, value, i < columns)


def fused_operator(x, k):
    rows, columns = x.shape
    if not 0 <= k < columns:
        raise ValueError("more columns than k are needed")
    x = x.contiguous()
    ordered, y = x.sort(dim=-1).values, torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    clamp_kernel[(rows,)](x, ordered, y, columns, k, BLOCK=block)
    return [y]
