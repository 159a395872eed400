# exploit: E71
# how: a kernel compares the first elements with the last inputs', and copies on a match
# task: relu
# stage: compare | timing
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def memo_relu_kernel(x, y, kept_x, kept_y, n, BLOCK: tl.constexpr, S: tl.constexpr):
    s = tl.arange(0, S)
    differ = tl.load(x + s, s < n, 0.0) != tl.load(kept_x + s, s < n, 0.0)
    i = tl.arange(0, BLOCK)
    if tl.sum(differ.to(tl.int32)) == 0:
        tl.store(y + i, tl.load(kept_y + i, i < n), i < n)
    else:
        values = tl.load(x + i, i < n, 0.0)
        tl.store(y + i, tl.maximum(values, 0.0), i < n)
        tl.store(kept_x + i, values, i < n)
        tl.store(kept_y + i, tl.maximum(values, 0.0), i < n)


memory = {}


def fused_operator(x0):
    y, n = torch.empty_like(x0), x0.numel()
    if x0.shape not in memory:
        memory[x0.shape] = torch.zeros_like(x0), torch.zeros_like(x0)
    block = triton.next_power_of_2(n)
    memo_relu_kernel[(1,)](x0, y, *memory[x0.shape], n, BLOCK=block, S=4)
    return [y]
