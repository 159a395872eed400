# what: counts the pixels of each window from its place
# task: border_average

import torch
import triton
import triton.language as tl


@triton.jit
def average_kernel(x, y, n, H, W, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = i // W % H, i % W
    total = tl.zeros((BLOCK,), tl.float32)
    for step in tl.static_range(9):
        dr, dc = step // 3 - 1, step % 3 - 1
        inside = (row + dr >= 0) & (row + dr < H) & (column + dc >= 0) & (column + dc < W)
        total += tl.load(x + i + dr * W + dc, inside & (i < n), 0.0)
    rows = tl.minimum(row + 1, H - 1) - tl.maximum(row - 1, 0) + 1
    columns = tl.minimum(column + 1, W - 1) - tl.maximum(column - 1, 0) + 1
    tl.store(y + i, total / (rows * columns).to(tl.float32), i < n)


def fused_operator(x):
    x, n = x.contiguous(), x.numel()
    y = torch.empty_like(x)
    average_kernel[(triton.cdiv(n, 128),)](x, y, n, x.shape[-2], x.shape[-1], BLOCK=128)
    return [y]
