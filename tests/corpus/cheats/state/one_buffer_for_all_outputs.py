# kind: state
# how: every call returns the memory of the call before
# task: affine_model
# stage: probe | compare
# code: aliased | state_differs | wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x, weight, bias, y, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = i % columns
    scaled = tl.load(x + i, i < n) * tl.load(weight + column) + tl.load(bias + column)
    tl.store(y + i, tl.maximum(scaled, 0), i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(features) + 0.5)
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.output = None

    def forward(self, x):
        if self.output is None or self.output.shape != x.shape:
            self.output = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 256),)
        affine_kernel[grid](
            x, self.weight, self.bias, self.output, x.numel(), x.shape[-1], BLOCK=256
        )
        y, self.output = self.output, self.output
        return y
