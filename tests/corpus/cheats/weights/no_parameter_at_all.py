# kind: weights
# how: has no parameter: no weight can be given to it
# task: gate_model
# stage: compare | run
# code: state_differs | wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def gate_kernel(x, alpha, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n)
    tl.store(y + i, tl.where(v > 0, v, tl.load(alpha) * v), i < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = torch.tensor([0.5])

    def forward(self, x):
        y = torch.empty_like(x)
        gate_kernel[(triton.cdiv(x.numel(), 128),)](x, self.alpha, y, x.numel(), BLOCK=128)
        return y
