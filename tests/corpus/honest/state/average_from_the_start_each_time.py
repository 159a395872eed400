# what: updates the average in every call
# task: moving_average_model
# twin: state/average_from_the_start_each_time

import torch
import triton
import triton.language as tl


@triton.jit
def centre_kernel(x, average, y, rows, columns, momentum, ROWS: tl.constexpr):
    column, i = tl.program_id(0), tl.arange(0, ROWS)
    values = tl.load(x + i * columns + column, i < rows, 0.0)
    old = tl.load(average + column)
    new = (1 - momentum) * old + momentum * tl.sum(values) / rows
    tl.store(average + column, new)
    tl.store(y + i * columns + column, values - new, i < rows)


class ModelNew(torch.nn.Module):
    def __init__(self, features, momentum):
        super().__init__()
        self.register_buffer("average", torch.zeros(features))
        self.momentum = momentum
        self.seen = 0

    def forward(self, x):
        y = torch.empty_like(x)
        self.seen += 1
        momentum = self.momentum
        block = triton.next_power_of_2(x.shape[0])
        centre_kernel[(x.shape[1],)](x, self.average, y, *x.shape, momentum, ROWS=block)
        return y
