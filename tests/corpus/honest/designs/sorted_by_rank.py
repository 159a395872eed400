# what: each value counts the smaller ones, and is written to this place
# task: sorted_short_rows

import torch
import triton
import triton.language as tl


@triton.jit
def rank_kernel(x, values, indices, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    mine = tl.load(x + row * columns + i, i < columns, 0.0)
    left = tl.load(x + row * columns + i[:, None], i[:, None] < columns, 0.0)
    right = tl.load(x + row * columns + i[None, :], i[None, :] < columns, 0.0)
    left_nan, right_nan = (left != left).to(tl.int32), (right != right).to(tl.int32)
    before = (left < right) | (left_nan < right_nan)
    is_equal = (left == right) | ((left_nan + right_nan) == 2)
    before = before | (is_equal & (i[:, None] < i[None, :]))
    rank = tl.sum((before & (i < columns)[:, None]).to(tl.int32), 0)
    tl.store(values + row * columns + rank, mine, i < columns)
    tl.store(indices + row * columns + rank, i.to(tl.int64), i < columns)


def fused_operator(x):
    x, (rows, columns) = x.contiguous(), x.shape
    if columns > 64:
        raise ValueError("made for rows of at most 64 values")
    values = torch.empty_like(x)
    indices = torch.empty(x.shape, dtype=torch.int64, device=x.device)
    rank_kernel[(rows,)](x, values, indices, columns, BLOCK=triton.next_power_of_2(columns))
    return values, indices
