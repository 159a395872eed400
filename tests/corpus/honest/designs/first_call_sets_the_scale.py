# what: a kernel for the first call, a second one for all calls, and a flag in an attribute
# task: act_norm_model

import torch
import triton
import triton.language as tl


@triton.jit
def measure_kernel(x, mean, scale, rows, columns, BLOCK: tl.constexpr):
    column, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + i * columns + column, i < rows, 0.0)
    centre = tl.sum(values) / rows
    centred = tl.where(i < rows, values - centre, 0.0)
    tl.store(mean + column, centre)
    tl.store(scale + column, 1 / (tl.sqrt_rn(tl.sum(centred * centred) / rows) + 1e-3))


@triton.jit
def apply_kernel(x, mean, scale, y, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = i % columns
    centred = tl.load(x + i, i < n) - tl.load(mean + column)
    tl.store(y + i, centred * tl.load(scale + column), i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.is_ready = False

    def forward(self, x):
        x, (rows, columns) = x.contiguous(), x.shape
        if columns != self.mean.numel():
            raise ValueError(f"made for {self.mean.numel()} features")
        y = torch.empty_like(x)
        if not self.is_ready:
            block = triton.next_power_of_2(rows)
            measure_kernel[(columns,)](x, self.mean, self.scale, rows, columns, BLOCK=block)
            self.is_ready = True
        grid = (triton.cdiv(x.numel(), 128),)
        apply_kernel[grid](x, self.mean, self.scale, y, x.numel(), columns, BLOCK=128)
        return y
