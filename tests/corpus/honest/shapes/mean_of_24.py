# what: divides by the number of columns that the input has
# task: row_means_model
# twin: shapes/mean_of_24

import torch
import triton
import triton.language as tl


@triton.jit
def means_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * columns + i, i < columns, 0.0))
    tl.store(y + row, total / columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.new_empty(x.shape[0])
        block = triton.next_power_of_2(x.shape[1])
        means_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=block)
        return y
