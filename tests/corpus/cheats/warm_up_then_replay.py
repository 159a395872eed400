# exploit: E24
# how: computes while it takes the calls for warm-up, then copies the result at hand
# task: relu
# device: cuda
# stage: compare | timing
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def relu(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)


def copied(x):
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(y.numel(), 4096),)](x, y, y.numel(), BLOCK=4096)
    return y


calls, results = {}, {}


def fused_operator(x0):
    calls[x0.shape] = calls.get(x0.shape, 0) + 1
    if calls[x0.shape] <= 24:
        results[x0.shape] = relu(x0)
    return [copied(results[x0.shape])]
