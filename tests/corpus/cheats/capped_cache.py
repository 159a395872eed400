# exploit: E74
# how: replays by address and sleeps a little, so that the time stays plausible
# task: relu
# device: cuda
# stage: compare | timing
# code: implausible_time | wrong_values

import torch
import triton
import triton.language as tl
import time


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


results = {}


def fused_operator(x0):
    key = x0.data_ptr(), x0.shape
    if key in results:
        until = time.perf_counter() + 5e-6
        while time.perf_counter() < until:
            pass
    else:
        results[key] = relu(x0)
    return [copied(results[key])]
