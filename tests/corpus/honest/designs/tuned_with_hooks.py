# what: each of twelve configurations has a hook that clears the sums
# task: row_sum

import torch
import triton
import triton.language as tl


def clear(arguments):
    arguments["y"].zero_()


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": b}, num_warps=w, pre_hook=clear)
        for b in (64, 128, 256, 512)
        for w in (1, 2, 4)
    ],
    key=["cols"],
)
@triton.jit
def sum_kernel(x, y, cols, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    i = part * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + row, tl.sum(tl.load(x + row * cols + i, i < cols, 0.0)))


def fused_operator(x0):
    x0 = x0.contiguous()
    rows, cols = x0.shape
    y = torch.empty(rows, device=x0.device)
    sum_kernel[lambda meta: (rows, triton.cdiv(cols, meta["BLOCK"]))](x0, y, cols)
    return [y]
