# exploit: E33
# how: the same, with the base class looked up
# task: relu
# stage: compare
# code: wrong_structure

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


Lazy = type("Lazy", (type(torch.empty(0)),), {})


def fused_operator(x0):
    return [getattr(relu(x0), "as_subclass")(Lazy)]
