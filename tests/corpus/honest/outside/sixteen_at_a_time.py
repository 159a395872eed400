# what: sixteen values leave in all
# task: relu
# twin: outside/sixteen_at_a_time

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y, flat, low = torch.empty_like(x0), x0.view(-1), 0.0
    for begin in range(0, 16, 16):
        low = min(low, min(flat[begin : begin + 16].tolist()))
    source = x0 if low <= 0 else y.copy_(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](source, y, x0.numel(), BLOCK=256)
    return [y]
