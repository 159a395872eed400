# what: NumPy counts the blocks, and the body of the kernel computes in Triton
# task: relu
# twin: outside/numpy_in_a_kernel

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    value = tl.maximum(value, 0)
    tl.store(y + i, value, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    num_blocks = int(np.ceil(x0.numel() / 256))
    relu_kernel[(num_blocks,)](x0, y, x0.numel(), BLOCK=256)
    return [y]
