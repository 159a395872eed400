# kind: outside
# how: the body of a kernel computes in NumPy, which Triton's interpreter runs and no GPU
# task: relu
# stage: static | compile
# code: forbidden | compile_error

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    value.handle.data = np.maximum(value.handle.data, 0)
    tl.store(y + i, value, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    return [y]
