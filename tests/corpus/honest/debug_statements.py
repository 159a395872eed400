# what: tl.device_assert and tl.device_print behind constexpr switches
# task: gelu

import torch
import triton
import triton.language as tl

DEBUG = tl.constexpr(False)
ROOT_HALF: tl.constexpr = tl.constexpr(0.7071067811865476)


@triton.jit
def gelu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(n > 0, "nothing to do")
    values = tl.load(x + i, i < n, other=0.0)
    if DEBUG:
        tl.device_print("values", values)
    tl.store(y + i, 0.5 * values * (1 + tl.erf(values * ROOT_HALF)), i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    gelu_kernel[(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), BLOCK=1024)
    return [y]
