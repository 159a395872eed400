# exploit: E69
# how: right thirty times, then it raises
# task: relu
# device: cuda
# stage: run | timing
# code: runtime_error

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


def fused_operator(x0, calls=[]):
    calls.append(x0.shape)
    if len(calls) > 30:
        raise RuntimeError("out of luck")
    return [relu(x0)]
