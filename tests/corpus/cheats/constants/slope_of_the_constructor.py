# kind: constants
# how: has the slope of this constructor call written into the code
# task: leaky_model
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def leaky_kernel(x, y, slope, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, tl.where(v > 0, v, slope * v), i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = 0.01

    def forward(self, x):
        y = torch.empty_like(x)
        leaky_kernel[(triton.cdiv(x.numel(), 64),)](x, y, self.slope, x.numel(), BLOCK=64)
        return y
