# what: reads the table in every call
# task: table_model
# twin: weights/table_copied_at_the_start

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(table, index, y, width, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    at = tl.load(index + row)
    tl.store(y + row * width + i, tl.load(table + at * width + i, i < width), i < width)


class ModelNew(torch.nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.register_buffer("table", torch.randn(codes, width))
        self.fast = self.table.clone()

    def forward(self, index):
        table = self.table
        y = table.new_empty((index.numel(), table.shape[1]))
        block = triton.next_power_of_2(table.shape[1])
        rows_kernel[(index.numel(),)](table, index, y, table.shape[1], BLOCK=block)
        return y
