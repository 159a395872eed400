# what: buffers that every call in training updates
# task: average_model

import torch
import triton
import triton.language as tl


@triton.jit
def average_kernel(x, average, y, rows, columns, TRAINING: tl.constexpr, BR: tl.constexpr):
    column = tl.program_id(0)
    r = tl.arange(0, BR)
    values = tl.load(x + r * columns + column, r < rows, 0.0)
    mean = tl.load(average + column)
    if TRAINING:
        mean = 0.9 * mean + 0.1 * (tl.sum(values) / rows)
        tl.store(average + column, mean)
    tl.store(y + r * columns + column, values - mean, r < rows)


@triton.jit
def count_kernel(calls):
    tl.store(calls, tl.load(calls) + 1)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("average", torch.zeros(features))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        y = torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(rows)
        average_kernel[(columns,)](
            x, self.average, y, rows, columns, TRAINING=self.training, BR=block
        )
        if self.training:
            count_kernel[(1,)](self.calls)
        return y
