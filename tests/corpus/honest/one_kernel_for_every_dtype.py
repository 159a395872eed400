# what: a kernel a dtype in a table, chosen when called
# task: bfloat16_silu

import torch
import triton
import triton.language as tl


@triton.jit
def silu_float_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, i < n)
    tl.store(y + i, values / (1 + tl.exp(-values)), i < n)


@triton.jit
def silu_narrow_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.cast(tl.load(x + i, i < n), tl.float32)
    tl.store(y + i, tl.cast(values / (1 + tl.exp(-values)), y.dtype.element_ty), i < n)


KERNELS = {
    torch.float32: silu_float_kernel,
    torch.bfloat16: silu_narrow_kernel,
    torch.float16: silu_narrow_kernel,
}


def fused_operator(x0):
    y = torch.empty_strided(x0.shape, x0.stride(), dtype=x0.dtype, device=x0.device)
    KERNELS[x0.dtype][(triton.cdiv(x0.numel(), 1024),)](x0, y, x0.numel(), BLOCK=1024)
    return [y]
