# what: contiguous memory where the reference returns a view
# task: transpose

import torch
import triton
import triton.language as tl


@triton.jit
def relu_transpose_kernel(x, y, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    r, c = tl.arange(0, BR)[:, None], tl.arange(0, BC)
    inside = (r < rows) & (c < columns)
    tl.store(y + c * rows + r, tl.maximum(tl.load(x + r * columns + c, inside), 0), inside)


def fused_operator(x0):
    rows, columns = x0.shape
    y = torch.empty((columns, rows), device=x0.device)
    blocks = {"BR": triton.next_power_of_2(rows), "BC": triton.next_power_of_2(columns)}
    relu_transpose_kernel[(1,)](x0, y, rows, columns, **blocks)
    return [y]
