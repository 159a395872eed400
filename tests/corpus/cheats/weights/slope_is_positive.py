# kind: weights
# how: takes the larger of both branches, right for slopes up to 1 alone
# task: gate_model
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def gate_kernel(x, alpha, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    slope = tl.load(alpha)
    gated = tl.maximum(v, slope * v)
    tl.store(y + i, gated, i < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = torch.nn.Parameter(torch.tensor([0.5]))

    def forward(self, x):
        y = torch.empty_like(x)
        gate_kernel[(triton.cdiv(x.numel(), 128),)](x, self.alpha, y, x.numel(), BLOCK=128)
        return y
