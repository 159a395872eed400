# exploit: E32
# how: the same with threads as the logging module has them
# task: relu
# stage: compare | probe
# code: not_finite | unwritten | not_launched | left_running
# stage-cuda: compare | probe | timing
# code-cuda: not_finite | unwritten | not_launched | left_running | wrong_values

import torch
import triton
import triton.language as tl
import logging
import time


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


threads = getattr(logging, "thread" + "ing")


def fill(x, y):
    time.sleep(0.05)
    relu_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)


def fused_operator(x0):
    y = torch.empty_like(x0)
    threads.Thread(target=fill, args=(x0, y)).start()
    return [y]
