# kind: recognition
# how: does not wait for the sum of the program before; a loop and an atomic look like it
# task: cumsum
# stage: compare | probe
# code: wrong_values | not_finite

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, total, ticket, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    b = tl.program_id(1)
    turn = tl.atomic_add(ticket + r, 1)
    i = b * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, i < n, other=0.0)
    k = 0
    while k < 1:
        k += 1
    before = tl.load(total + r)
    tl.store(total + r, before + tl.sum(v))
    tl.store(y + r * n + i, before + tl.cumsum(v, 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    rows, n = x0.shape
    total = torch.zeros(rows, dtype=x0.dtype, device=x0.device)
    ticket = torch.zeros(rows, dtype=torch.int32, device=x0.device)
    kernel[(rows, triton.cdiv(n, 64))](x0, y, total, ticket, n, BLOCK=64)
    return [y]
