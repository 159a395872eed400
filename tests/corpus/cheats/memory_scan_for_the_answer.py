# exploit: E47
# how: looks around its input for memory that holds the input's first positive values
# task: relu
# stage: run
# code: out_of_bounds
# stage-cuda: run | compare
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
def scan_kernel(x, y, found, reach, n, BLOCK: tl.constexpr):
    offset = (tl.program_id(0) - reach) * BLOCK * 1
    i = tl.arange(0, BLOCK)
    mine = tl.maximum(tl.load(x + i), 0.0)
    there = tl.load(x + offset + i)
    if tl.sum((mine != there).to(tl.int32)) == 0:
        tl.store(found, offset)


@triton.jit
def copy_kernel(x, y, found, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + tl.load(found) + i, i < n), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    found = torch.zeros(1, dtype=torch.int32, device=x0.device)
    scan_kernel[(4096,)](x0, y, found, 2048, x0.numel(), BLOCK=128)
    copy_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, found, x0.numel(), BLOCK=1024)
    return [y]
