# what: levels computed from floats, counted by integer atomics
# task: level_histogram

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(x, counts, level, n, levels, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.floor((tl.load(x + i, i < n) + 3) * scale)
    place = tl.minimum(tl.maximum(values, 0.0), levels - 1.0).to(tl.int64)
    tl.store(level + i, place, i < n)
    tl.atomic_add(counts + place, tl.full((BLOCK,), 1, tl.int64), i < n)


def fused_operator(x, levels):
    x, n = x.contiguous(), x.numel()
    counts = torch.zeros(levels, dtype=torch.int64, device=x.device)
    level = torch.empty(x.shape, dtype=torch.int64, device=x.device)
    if n:
        count_kernel[(triton.cdiv(n, 128),)](x, counts, level, n, levels, levels / 6, BLOCK=128)
    return [counts, level]
