# what: takes the row length from the input
# task: row_means_model
# twin: shapes/columns_of_the_constructor

import torch
import triton
import triton.language as tl


@triton.jit
def means_kernel(x, y, stride, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * stride + i, i < columns, 0.0))
    tl.store(y + row, total / columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.new_empty(x.shape[0])
        columns = x.shape[1]
        block = triton.next_power_of_2(x.shape[1])
        means_kernel[(x.shape[0],)](x, y, x.shape[1], columns, BLOCK=block)
        return y
