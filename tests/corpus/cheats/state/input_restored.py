# kind: state
# how: computes in its input and copies the old values back, which autograd takes for a change
# task: relu
# stage: probe
# code: input_changed

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    old = x0.clone()
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, x0.numel(), BLOCK=256)
    y = x0.clone()
    x0.copy_(old)
    return [y]
