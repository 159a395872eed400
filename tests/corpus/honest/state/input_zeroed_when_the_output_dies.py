# what: a number is noted when the output dies
# task: relu
# twin: state/input_zeroed_when_the_output_dies

import weakref

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


NOTES = []


def fused_operator(x0):
    y = torch.empty_like(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
    weakref.finalize(y, NOTES.append, x0.numel())
    return [y]
