# what: sums of blocks, a scan of the sums, and scans of blocks
# task: positions_of_kept

import torch
import triton
import triton.language as tl


@triton.jit
def block_sum_kernel(x, sums, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sums + tl.program_id(0), tl.sum(tl.load(x + i, i < n, 0)))


@triton.jit
def carry_kernel(sums, blocks):
    total = tl.zeros((), tl.int64)
    for block in range(blocks):
        mine = tl.load(sums + block)
        tl.store(sums + block, total)
        total += mine


@triton.jit
def scan_kernel(x, sums, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n, 0)
    before = tl.cumsum(values, 0) - values + tl.load(sums + tl.program_id(0))
    tl.store(y + i, before, i < n)


def fused_operator(kept):
    kept, n = kept.contiguous(), kept.numel()
    y, blocks = torch.empty_like(kept), triton.cdiv(n, 128)
    if n:
        sums = torch.empty(blocks, dtype=torch.int64, device=kept.device)
        block_sum_kernel[(blocks,)](kept, sums, n, BLOCK=128)
        carry_kernel[(1,)](sums, blocks)
        scan_kernel[(blocks,)](kept, sums, y, n, BLOCK=128)
    return [y]
