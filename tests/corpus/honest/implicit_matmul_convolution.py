# what: a convolution as a product over gathered windows
# task: small_convolution

import torch
import triton
import triton.language as tl


@triton.jit
def conv_kernel(
    x, w, y, C, H, W, O, R: tl.constexpr, BP: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr
):
    image = tl.program_id(1)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o, c = tl.arange(0, BO), tl.arange(0, BC)
    h, v = p // W, p % W
    total = tl.zeros((BP, BO), tl.float32)
    for tap in tl.static_range(R * R):
        row, column = h + tap // R - R // 2, v + tap % R - R // 2
        inside = (p < H * W) & (row >= 0) & (row < H) & (column >= 0) & (column < W)
        at = image * C * H * W + c * H * W + (row * W + column)[:, None]
        left = tl.load(x + at, inside[:, None] & (c < C), 0.0)
        taps = o * C * R * R + c[:, None] * R * R + tap
        right = tl.load(w + taps, (o < O) & (c[:, None] < C), 0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    at = image * O * H * W + o * H * W + p[:, None]
    tl.store(y + at, total, (p[:, None] < H * W) & (o < O))


def fused_operator(x, w):
    N, C, H, W = x.shape
    O, _, R, _ = w.shape
    y = torch.empty((N, O, H, W), device=x.device, dtype=x.dtype)
    blocks = {"BO": max(16, triton.next_power_of_2(O)), "BC": max(16, triton.next_power_of_2(C))}
    conv_kernel[(triton.cdiv(H * W, 64), N)](x, w, y, C, H, W, O, R, BP=64, **blocks)
    return [y]
