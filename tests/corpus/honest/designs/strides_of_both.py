# what: reads every input by its strides, and returns a view of transposed memory
# task: broadcast_scales

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, scale, y, positive, columns, xr, xc, sr, sc, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    values = tl.load(x + row * xr + i * xc, i < columns, 0.0)
    values *= tl.load(scale + row * sr + i * sc, i < columns, 0.0)
    small = tl.exp(-tl.abs(values))
    result = values * tl.where(values >= 0, 1 / (1 + small), small / (1 + small))
    tl.store(y + row * columns + i, result, i < columns)
    tl.store(positive + row, tl.min(((result > 0) | (i >= columns)).to(tl.int32)) == 1)


def fused_operator(x, scale):
    if x.shape != scale.shape:
        raise ValueError("a scale for each value is needed")
    rows, columns = x.shape
    y = torch.empty((rows, columns), device=x.device)
    positive = torch.empty(rows, dtype=torch.bool, device=x.device)
    block = triton.next_power_of_2(columns)
    strides = (*x.stride(), *scale.stride())
    scale_kernel[(rows,)](x, scale, y, positive, columns, *strides, BLOCK=block)
    return [y.t(), positive]
