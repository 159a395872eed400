# what: replaces infinities and NaN
# task: clean_numbers
# twin: inputs/infinity_is_no_number

import torch
import triton
import triton.language as tl


@triton.jit
def clean_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    v = tl.where(v != v, 0.0, v)
    v = tl.where(v == float("inf"), 3.0, tl.where(v == float("-inf"), -3.0, v))
    tl.store(y + i, v * 2, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    clean_kernel[(triton.cdiv(x0.numel(), 64),)](x0, y, x0.numel(), BLOCK=64)
    return [y]
