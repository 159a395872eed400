# what: computes the variance of centred values
# task: standardized
# twin: inputs/variance_of_small_means

import torch
import triton
import triton.language as tl


@triton.jit
def standard_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, i < columns, 0.0)
    mean = tl.sum(v) / columns
    centred = tl.where(i < columns, v - mean, 0.0)
    variance = tl.sum(centred * centred) / columns
    tl.store(y + row * columns + i, centred * tl.rsqrt(variance + 1e-5), i < columns)


def fused_operator(x0):
    y = torch.empty_like(x0)
    block = triton.next_power_of_2(x0.shape[1])
    standard_kernel[(x0.shape[0],)](x0, y, x0.shape[1], BLOCK=block)
    return [y]
