# kind: outside
# how: NumPy computes in a kernel, on the array of a value, in a branch that is not compiled
# task: relu
# stage: static
# code: forbidden

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, FAST: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0.0)
    if FAST:
        h = vars(v)["handle"]
        h.data = h.data.clip(0)
        tl.store(y + i, v, i < n)
    else:
        tl.store(y + i, tl.maximum(v, 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    kernel[(triton.cdiv(x0.numel(), 256),)](
        x0, y, x0.numel(), type(kernel).__name__ != "JITFunction", BLOCK=256
    )
    return [y]
