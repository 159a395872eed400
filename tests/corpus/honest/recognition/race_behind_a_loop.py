# what: each program waits in a loop until the program before has stored its sum
# task: cumsum
# twin: recognition/race_behind_a_loop

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, total, ticket, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    b = tl.program_id(1)
    i = b * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, i < n, other=0.0)
    while tl.atomic_add(ticket + tl.num_programs(0) + r, 0) < b:
        pass
    before = tl.load(total + r)
    tl.store(total + r, before + tl.sum(v))
    tl.debug_barrier()
    tl.atomic_add(ticket + tl.num_programs(0) + r, 1)
    tl.store(y + r * n + i, before + tl.cumsum(v, 0), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    rows, n = x0.shape
    total = torch.zeros(rows, dtype=x0.dtype, device=x0.device)
    ticket = torch.zeros(2 * rows, dtype=torch.int32, device=x0.device)
    kernel[(rows, triton.cdiv(n, 64))](x0, y, total, ticket, n, BLOCK=64)
    return [y]
