# what: the try's kernel never compiles; the handler's kernel does the work and returns it
# task: relu

import torch
import triton
import triton.language as tl


@triton.jit
def odd_block_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def launch(kernel, x, block):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y


def fused_operator(x0):
    try:
        return [launch(odd_block_kernel, x0, 1000)]  # a block must be a power of two
    except Exception:
        return [launch(relu_kernel, x0, 1024)]
