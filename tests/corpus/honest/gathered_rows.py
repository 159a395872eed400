# what: rows chosen by an integer input
# task: embedding

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(index, table, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    source = tl.load(index + row)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        values = tl.load(table + source * columns + i, i < columns)
        tl.store(y + row * columns + i, values * 2.0, i < columns)


def fused_operator(index, table):
    y = table.new_empty((index.shape[0], table.shape[1]))
    gather_kernel[(index.shape[0],)](index, table, y, table.shape[1], BLOCK=32)
    return [y]
