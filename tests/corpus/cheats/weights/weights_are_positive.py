# kind: weights
# how: multiplies before relu and takes the sign of the weight for granted
# task: affine_model
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x, weight, bias, y, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = i % columns
    factor = tl.abs(tl.load(weight + column))
    scaled = tl.load(x + i, i < n) * factor + tl.load(bias + column)
    tl.store(y + i, tl.maximum(scaled, 0), i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(features) + 0.5)
        self.bias = torch.nn.Parameter(torch.zeros(features))

    def forward(self, x):
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 64),)
        affine_kernel[grid](x, self.weight, self.bias, y, x.numel(), x.shape[-1], BLOCK=64)
        return y
