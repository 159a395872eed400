# what: a kernel reads a property of a constant: the width of a block
# task: relu
# twin: outside/property_of_a_constant

import torch
import triton
import triton.language as tl


class Sizes:
    def __init__(self, x, y):
        self.x, self.y = x, y

    @property
    def block(self):
        return 256


@triton.jit
def sized_kernel(x, y, n, SIZES: tl.constexpr):
    i = tl.program_id(0) * SIZES.block + tl.arange(0, SIZES.block)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    n = x0.numel()
    sized_kernel[(triton.cdiv(n, 256),)](x0, y, n, SIZES=Sizes(x0, y))
    return [y]
