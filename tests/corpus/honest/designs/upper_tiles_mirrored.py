# what: tiles above the diagonal are stored twice, the second time transposed
# task: gram

import torch
import triton
import triton.language as tl


@triton.jit
def gram_kernel(x, y, rows, columns, BM: tl.constexpr, BK: tl.constexpr):
    first, second = tl.program_id(0), tl.program_id(1)
    if first <= second:
        i = tl.arange(0, BM)
        m, n = first * BM + i[:, None], second * BM + i
        total = tl.zeros((BM, BM), tl.float32)
        for start in range(0, columns, BK):
            k = start + tl.arange(0, BK)
            left = tl.load(x + m * columns + k[None, :], (m < rows) & (k[None, :] < columns), 0.0)
            right = tl.load(x + n * columns + k[:, None], (n < rows) & (k[:, None] < columns), 0.0)
            total = tl.dot(left, right, total, input_precision="ieee")
        inside = (m < rows) & (n < rows)
        tl.store(y + m * rows + n, total, inside)
        mirrored = y + (second * BM + i[:, None]) * rows + first * BM + i
        tl.store(mirrored, tl.trans(total), tl.trans(inside))


def fused_operator(x):
    rows, columns = x.shape
    y, tiles = torch.empty((rows, rows), device=x.device), triton.cdiv(rows, 16)
    gram_kernel[(tiles, tiles)](x.contiguous(), y, rows, columns, BM=16, BK=16)
    return [y]
