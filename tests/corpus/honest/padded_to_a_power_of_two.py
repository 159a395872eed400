# what: pads rows in memory of its own and cuts the result by a view
# task: layer_norm_model

import torch
import triton
import triton.language as tl


@triton.jit
def pad_kernel(x, padded, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(padded + row * BLOCK + i, tl.load(x + row * columns + i, i < columns, 0.0))


@triton.jit
def norm_kernel(padded, weight, bias, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(padded + row * BLOCK + i)
    mean = tl.sum(values) / columns
    centred = tl.where(i < columns, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred) / columns + eps)
    w, b = tl.load(weight + i, i < columns, 0.0), tl.load(bias + i, i < columns, 0.0)
    tl.store(padded + row * BLOCK + i, centred * scale * w + b)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, x):
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        padded = x.new_empty((rows, block))
        norm = self.norm
        pad_kernel[(rows,)](x, padded, columns, BLOCK=block)
        norm_kernel[(rows,)](padded, norm.weight, norm.bias, columns, norm.eps, BLOCK=block)
        return padded[:, :columns].contiguous()
