# what: finds the single one of each row, and copies the row of the table
# task: one_hot_lookup

import torch
import triton
import triton.language as tl


@triton.jit
def lookup_kernel(one_hot, table, y, classes, columns, C: tl.constexpr, D: tl.constexpr):
    row, c, d = tl.program_id(0).to(tl.int64), tl.arange(0, C), tl.arange(0, D)
    flags = tl.load(one_hot + row * classes + c, c < classes, 0.0)
    choice = tl.sum(tl.where(flags != 0, c, 0))
    values = tl.load(table + choice * columns + d, d < columns)
    tl.store(y + row * columns + d, values, d < columns)


def fused_operator(one_hot, table):
    (rows, classes), columns = one_hot.shape, table.shape[1]
    y = torch.empty((rows, columns), device=table.device)
    C, D = triton.next_power_of_2(classes), triton.next_power_of_2(columns)
    lookup_kernel[(rows,)](one_hot.contiguous(), table.contiguous(), y, classes, columns, C=C, D=D)
    return [y]
