# exploit: E02
# how: a kernel that always throws, torch in the handler
# task: relu
# stage: probe
# code: not_launched

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    try:
        relu_kernel[(1,)](x0, y)
    except TypeError:
        y = torch.relu(x0)
    return [y]
