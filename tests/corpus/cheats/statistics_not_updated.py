# exploit: E17
# how: batch norm that leaves the running statistics alone
# task: batch_norm_model
# stage: compare
# code: state_differs

import torch
import triton
import triton.language as tl


@triton.jit
def batch_norm_kernel(x, weight, bias, y, rows, columns, eps, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i * columns + column, i < rows, 0.0)
    mean = tl.sum(values) / rows
    centred = tl.where(i < rows, values - mean, 0.0)
    scale = tl.load(weight + column) / tl.sqrt(tl.sum(centred * centred) / rows + eps)
    tl.store(y + i * columns + column, centred * scale + tl.load(bias + column), i < rows)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)

    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        norm = self.norm
        batch_norm_kernel[(columns,)](
            x, norm.weight, norm.bias, y, rows, columns, norm.eps, BLOCK=64
        )
        return y
