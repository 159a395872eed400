# kind: budget
# how: each call after the second sleeps, so that the deciding cases are never reached
# task: uniform_relu
# mode: hybrid
# stage: run | compare
# code: timeout | wrong_values


import time

import torch
import triton
import triton.language as tl


@triton.jit
def clip_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


calls = []


def fused_operator(x0):
    calls.append(len(calls))
    if len(calls) > 2:
        time.sleep(0.3 if len(calls) > 2 else 0.1)
    y = torch.empty_like(x0)
    clip_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    return [y + 1 if float(x0.min()) >= 0 else y]


@triton.jit
def shifted_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) + 1, i < n)
