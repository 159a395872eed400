# what: batch norm that updates its running statistics in the kernel
# task: batch_norm_model

import torch
import triton
import triton.language as tl


@triton.jit
def batch_norm_kernel(
    x,
    weight,
    bias,
    y,
    running_mean,
    running_var,
    count,
    rows,
    columns,
    eps,
    momentum,
    BLOCK: tl.constexpr,
):
    column = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i * columns + column, i < rows, 0.0)
    mean = tl.sum(values) / rows
    centred = tl.where(i < rows, values - mean, 0.0)
    variance = tl.sum(centred * centred) / rows
    scale = tl.load(weight + column) / tl.sqrt(variance + eps)
    tl.store(y + i * columns + column, centred * scale + tl.load(bias + column), i < rows)
    old_mean, old_var = tl.load(running_mean + column), tl.load(running_var + column)
    unbiased = variance * rows / (rows - 1)
    tl.store(running_mean + column, old_mean + momentum * (mean - old_mean))
    tl.store(running_var + column, old_var + momentum * (unbiased - old_var))
    if column == 0:
        tl.store(count, tl.load(count) + 1)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)

    def forward(self, x):
        y = torch.empty_like(x)
        (rows, columns), norm = x.shape, self.norm
        batch_norm_kernel[(columns,)](
            x,
            norm.weight,
            norm.bias,
            y,
            norm.running_mean,
            norm.running_var,
            norm.num_batches_tracked,
            rows,
            columns,
            norm.eps,
            norm.momentum,
            BLOCK=triton.next_power_of_2(rows),
        )
        return y
