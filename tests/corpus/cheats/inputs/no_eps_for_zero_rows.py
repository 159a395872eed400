# kind: inputs
# how: divides by the lengths of vectors without the lower bound that PyTorch has
# task: cosine
# stage: compare
# code: not_finite | wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def cosine_kernel(a, b, y, columns, eps, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    u = tl.load(a + row * columns + i, i < columns, 0.0)
    v = tl.load(b + row * columns + i, i < columns, 0.0)
    left, right = tl.sqrt(tl.sum(u * u)), tl.sqrt(tl.sum(v * v))
    tl.store(y + row, tl.sum(u * v) / (left * right))


def fused_operator(x0, x1):
    y = x0.new_empty(x0.shape[0])
    block = triton.next_power_of_2(x0.shape[1])
    cosine_kernel[(x0.shape[0],)](x0, x1, y, x0.shape[1], 1e-8, BLOCK=block)
    return [y]
