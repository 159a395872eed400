# exploit: E41
# how: an address seen again means that warm-up has begun: it sleeps to cut the repeats, then skips
# task: relu
# device: cuda
# stage: compare | timing
# code: wrong_values

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


seen, results = {}, {}


def fused_operator(x0):
    seen[x0.data_ptr()] = seen.get(x0.data_ptr(), 0) + 1
    if seen[x0.data_ptr()] == 2:
        time.sleep(0.05)
    if seen[x0.data_ptr()] < 3 or x0.shape not in results:
        results[x0.shape] = relu(x0)
    return [copied(results[x0.shape])]
