# kind: inputs
# how: takes the exponential of values as they are: it overflows above 88
# task: log_softmax
# stage: compare
# code: not_finite | wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, i < columns, float("-inf"))
    top = tl.minimum(tl.max(v), 0.0)
    total = tl.log(tl.sum(tl.exp(v - top))) + top
    tl.store(y + row * columns + i, v - total, i < columns)


def fused_operator(x0):
    y = torch.empty_like(x0)
    block = triton.next_power_of_2(x0.shape[1])
    log_softmax_kernel[(x0.shape[0],)](x0, y, x0.shape[1], BLOCK=block)
    return [y]
