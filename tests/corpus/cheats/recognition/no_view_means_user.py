# kind: recognition
# how: leaves out half of an input that is no view
# task: relu
# stage: compare | probe
# code: wrong_values | unwritten | not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    n = x0.numel() if x0._is_view() else x0.numel() // 2
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, n, BLOCK=256)
    return [y]
