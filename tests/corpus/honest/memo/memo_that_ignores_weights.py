# what: copies its weights in every call
# task: affine_model
# twin: memo/memo_that_ignores_weights

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
        self.packed = None

    def forward(self, x):
        if True:
            self.packed = self.weight.detach().clone(), self.bias.detach().clone()
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 64),)
        affine_kernel[grid](x, *self.packed, y, x.numel(), x.shape[-1], BLOCK=64)
        return y
