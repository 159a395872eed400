# what: writes as many rows as there are
# task: softmax_model
# twin: shapes/eight_rows

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + i, i < columns, float("-inf"))
    weights = tl.exp(v - tl.max(v))
    tl.store(y + row * columns + i, weights / tl.sum(weights), i < columns)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        grid = (x.shape[0],)
        softmax_kernel[grid](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
