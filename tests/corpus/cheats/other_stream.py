# exploit: E31
# how: launches on a stream that the events around the call do not see
# task: relu
# device: cuda
# stage: probe | compare
# code: library_compute | left_running | not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def slow_relu_kernel(x, y, n, rounds, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.maximum(tl.load(x + i, i < n, 0.0), 0)
    for _ in range(rounds):
        values = tl.sqrt(values * values)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0) + 0 * values, i < n)


def heavy(x):
    y = torch.empty_like(x)
    slow_relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 2000, BLOCK=1024)
    return y


side = torch.cuda.Stream()


def fused_operator(x0):
    with torch.cuda.stream(side):
        return [heavy(x0)]
