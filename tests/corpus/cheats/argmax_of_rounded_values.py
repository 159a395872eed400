# exploit: E18
# how: compares in bfloat16, so that some of the integers are off by some
# task: argmax
# stage: compare
# code: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, i < columns, float("-inf"))
    rounded = values.to(tl.bfloat16).to(tl.float32)
    tl.store(y + row, tl.argmax(rounded, 0).to(tl.int64))


def fused_operator(x0):
    y = torch.empty(x0.shape[0], dtype=torch.int64, device=x0.device)
    block = triton.next_power_of_2(x0.shape[1])
    argmax_kernel[(x0.shape[0],)](x0, y, x0.shape[1], BLOCK=block)
    return [y]
