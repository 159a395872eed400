# what: max by a line of PTX
# task: relu
# device: cuda

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n, 0.0)
    values = tl.inline_asm_elementwise(
        "max.f32 $0, $1, 0f00000000;", "=f,f", [values], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(y + i, values, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    relu_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), BLOCK=1024)
    return [y]
