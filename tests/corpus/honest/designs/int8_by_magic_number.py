# what: rounds half to even by adding 1.5 * 2**23
# task: quantise_rows

import torch
import triton
import triton.language as tl


@triton.jit
def quantise_kernel(x, q, scale, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, 0.0)
    top = tl.max(tl.abs(values))
    step = tl.where(top == 0, 1.0, tl.div_rn(top, 127.0))
    rounded = (tl.div_rn(values, step) + 12582912.0) - 12582912.0
    rounded = tl.minimum(tl.maximum(rounded, -127.0), 127.0)
    tl.store(q + row * columns + i, rounded.to(tl.int8), i < columns)
    tl.store(scale + row, step)


def fused_operator(x):
    x, (rows, columns) = x.contiguous(), x.shape
    q = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty((rows, 1), device=x.device)
    quantise_kernel[(rows,)](x, q, scale, columns, BLOCK=triton.next_power_of_2(columns))
    return [q, scale]
