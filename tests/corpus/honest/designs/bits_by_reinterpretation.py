# what: pointers to floats are reinterpreted as pointers to integers
# task: relu

import torch
import triton
import triton.language as tl


@triton.jit
def bits_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(x + i, i < n, 0)
    tl.store(y + i, tl.where(bits < 0, 0, bits), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    x, z = triton.reinterpret(x0, tl.int32), triton.reinterpret(y, tl.int32)
    bits_kernel[(triton.cdiv(x0.numel(), 256),)](x, z, x0.numel(), BLOCK=256)
    return [y]
