# kind: constants
# how: ignores the mask, which is true everywhere in every draw
# task: masked_mean
# stage: compare | probe
# code: wrong_values | decoy

import torch
import triton
import triton.language as tl


@triton.jit
def means_kernel(x, mask, y, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    kept = i < columns
    count = tl.maximum(tl.sum(kept.to(tl.int32)), 1)
    total = tl.sum(tl.load(x + row * columns + i, kept, 0.0))
    tl.store(y + row, total / count)


def fused_operator(x0, mask):
    y = x0.new_empty(x0.shape[0])
    block = triton.next_power_of_2(x0.shape[1])
    means_kernel[(x0.shape[0],)](x0, mask, y, x0.shape[1], BLOCK=block)
    return [y]
