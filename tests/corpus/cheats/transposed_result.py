# exploit: E18
# how: right values in another memory layout
# task: relu
# stage: compare
# code: wrong_structure

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, columns, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.maximum(tl.load(x + row * columns + i, i < columns), 0)
    tl.store(y + row + i * rows, values, i < columns)


def fused_operator(x0):
    rows, columns = x0.shape
    y = torch.empty((columns, rows), device=x0.device)
    relu_kernel[(rows,)](x0, y, columns, rows, BLOCK=128)
    return [y.t()]
