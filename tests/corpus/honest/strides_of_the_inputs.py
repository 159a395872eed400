# what: reads transposed and expanded inputs by their strides
# task: strided

import torch
import triton
import triton.language as tl


@triton.jit
def add_relu_kernel(
    a, b, y, rows, columns, a_row, a_column, b_row, b_column, y_row, y_column, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    left = tl.load(a + row * a_row + i * a_column, inside)
    right = tl.load(b + row * b_row + i * b_column, inside)
    tl.store(y + row * y_row + i * y_column, tl.maximum(left + right, 0.0), inside)


def fused_operator(x0, x1):
    y = torch.empty(x0.shape, device=x0.device, dtype=x0.dtype)
    rows, columns = x0.shape
    strides = (*x0.stride(), *x1.stride(), *y.stride())
    add_relu_kernel[(rows,)](
        x0, x1, y, rows, columns, *strides, BLOCK=triton.next_power_of_2(columns)
    )
    return [y]
