# kind: constants
# how: cuts identifiers to 32 bits
# task: hashed_ids
# stage: compare | run
# code: wrong_values | out_of_bounds

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(ids, table, y, width, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    number = tl.load(ids + row)
    number = number.to(tl.int32)
    at = number % 97
    at = tl.where(at < 0, at + 97, at)
    tl.store(y + row * width + i, tl.load(table + at * width + i, i < width), i < width)


def fused_operator(ids, table):
    y = table.new_empty((ids.numel(), table.shape[1]))
    block = triton.next_power_of_2(table.shape[1])
    rows_kernel[(ids.numel(),)](ids, table, y, table.shape[1], BLOCK=block)
    return [y]
