# what: computes in a copy of its input
# task: relu
# twin: state/input_restored

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = x0.clone()
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](y, x0.numel(), BLOCK=256)
    return [y]
