# what: scratch memory is its own, though the input's storage has room
# task: relu
# twin: state/scratch_beside_an_input

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def scratch(x):
    return torch.empty_like(x)


def fused_operator(x0):
    beside, y = scratch(x0), torch.empty_like(x0)
    relu_kernel[(triton.cdiv(beside.numel(), 256),)](x0, beside, beside.numel(), BLOCK=256)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    y.view(-1)[: beside.numel()].copy_(beside.view(-1))
    return [y]
