# what: returns a plain tensor
# task: relu
# twin: state/parameter_as_output

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n, other=0.0), 0), i < n)


def relu(x, n=None):
    y = torch.empty_like(x)
    n = x.numel() if n is None else n
    relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, n, BLOCK=256)
    return y


def fused_operator(x0):
    return [relu(x0).detach()]
