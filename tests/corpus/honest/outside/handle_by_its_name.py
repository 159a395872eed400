# what: a branch that is not compiled computes in the language
# task: relu
# twin: outside/handle_by_its_name

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, FAST: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, other=0.0)
    if FAST:
        tl.store(y + i, v * (v > 0), i < n)
    else:
        tl.store(y + i, tl.maximum(v, 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), False, BLOCK=256)
    return [y]
