# what: a kernel goes through tuples of tensors
# task: relu

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


@triton.jit
def both_kernel(inputs, outputs, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for k in tl.static_range(2):
        tl.store(outputs[k] + i, tl.maximum(tl.load(inputs[k] + i, i < n), 0), i < n)


def fused_operator(x0):
    x0, y = x0.contiguous(), torch.empty(x0.shape, dtype=x0.dtype, device=x0.device)
    n = x0.numel()
    half = n // 2
    x, z = x0.view(-1), y.view(-1)
    both_kernel[(triton.cdiv(n - half, 128),)](
        (x[:half], x[n - half :]), (z[:half], z[n - half :]), half, BLOCK=128
    )
    if n % 2:
        relu_kernel[(1,)](x[half:], z[half:], 1, BLOCK=16)
    return [y]
