# what: contiguous memory where the reference is channels-last
# task: channels_last

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, N, C, H, W, sn, sc, sh, sw, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N * C * H * W
    w, h, c, n = i % W, i // W % H, i // (W * H) % C, i // (W * H * C)
    values = tl.load(x + n * sn + c * sc + h * sh + w * sw, inside)
    tl.store(y + i, tl.maximum(values, 0.0), inside)


def fused_operator(x0):
    y = x0.new_empty(x0.shape)
    grid = (triton.cdiv(x0.numel(), 256),)
    relu_kernel[grid](x0, y, *x0.shape, *x0.stride(), BLOCK=256)
    return [y]
