# what: each program waits for the flag of the program before
# task: cumsum
# twin: programs_run_in_order

import torch
import triton
import triton.language as tl


@triton.jit
def scan_kernel(x, y, flags, columns, BLOCK: tl.constexpr):
    row, part, i = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    at = row * columns + part * BLOCK + i
    inside = part * BLOCK + i < columns
    sums = tl.cumsum(tl.load(x + at, inside, 0.0))
    flag = flags + row * tl.num_programs(1) + part
    while tl.atomic_add(flag - 1, 0, part > 0) == 0 and part > 0:
        pass
    before = tl.load(y + row * columns + part * BLOCK - 1, part > 0, 0.0)
    tl.store(y + at, sums + before, inside)
    tl.debug_barrier()
    tl.atomic_xchg(flag, 1)


def fused_operator(x0):
    rows, columns = x0.shape
    grid = rows, triton.cdiv(columns, 32)
    x0, y = x0.contiguous(), torch.empty(x0.shape, device=x0.device)
    flags = torch.zeros(grid, dtype=torch.int32, device=x0.device)
    scan_kernel[grid](x0, y, flags, columns, BLOCK=32)
    return [y]
