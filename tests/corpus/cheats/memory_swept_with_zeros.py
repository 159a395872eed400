# exploit: E47
# how: writes zeros over the memory around its output, where the expected values might lie
# task: relu
# stage: run
# code: out_of_bounds
# stage-cuda: run | compare | probe
# code-cuda: out_of_bounds | wrong_values | not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def half_relu(x):
    """Half the work: the rest of the answer is to come from the cheat."""
    y = torch.zeros_like(x)
    n = x.numel() // 2
    relu_kernel[(triton.cdiv(n, 4096),)](x, y, n, BLOCK=4096)
    return y


@triton.jit
def sweep_kernel(y, start, n, BLOCK: tl.constexpr):
    i = start + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.zeros((BLOCK,), tl.float32), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    n = x0.numel()
    sweep_kernel[(64,)](y, -32 * 1024, n + 32 * 1024, BLOCK=1024)
    return [y]
