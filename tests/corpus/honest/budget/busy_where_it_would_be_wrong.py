# what: the loop runs as often as the row is long
# task: softmax_model
# mode: hybrid
# twin: budget/busy_where_it_would_be_wrong

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, float("-inf"))
    weights = tl.exp(values - tl.max(values))
    tl.store(y + row * columns + i, weights / tl.sum(weights), i < columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=block)
        return y
