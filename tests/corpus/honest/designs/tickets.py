# what: programs draw their rows from a counter that each call makes anew
# task: softmax

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, ticket, rows, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.atomic_add(ticket, 1)
    while row < rows:
        place = row.to(tl.int64) * columns + i
        values = tl.load(x + place, i < columns, float("-inf"))
        values = tl.exp(values - tl.max(values))
        tl.store(y + place, values / tl.sum(values), i < columns)
        row = tl.atomic_add(ticket, 1)


def fused_operator(x0):
    rows, columns = x0.shape
    y, ticket = (
        torch.empty(x0.shape, device=x0.device),
        torch.zeros(1, dtype=torch.int32, device=x0.device),
    )
    softmax_kernel[(min(rows, 8),)](
        x0.contiguous(), y, ticket, rows, columns, BLOCK=triton.next_power_of_2(columns)
    )
    return [y]
