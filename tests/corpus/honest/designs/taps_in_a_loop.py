# what: a causal filter without padding in memory
# task: causal_depthwise

import torch
import triton
import triton.language as tl


@triton.jit
def filter_kernel(x, taps, bias, y, channels, length, K, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel = row % channels
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(K):
        place = i - (K - 1) + k
        inside = (place >= 0) & (place < length)
        total += tl.load(taps + channel * K + k) * tl.load(x + row * length + place, inside, 0.0)
    total += tl.load(bias + channel)
    small = tl.exp(-tl.abs(total))
    gate = tl.where(total >= 0, 1 / (1 + small), small / (1 + small))
    tl.store(y + row * length + i, total * gate, i < length)


def fused_operator(x, taps, bias):
    x, taps = x.contiguous(), taps.contiguous()
    batch, channels, length = x.shape
    if channels != taps.shape[0] or channels != bias.numel():
        raise ValueError("taps and bias for each channel are needed")
    y = torch.empty_like(x)
    grid = (batch * channels, triton.cdiv(length, 32))
    filter_kernel[grid](x, taps, bias.contiguous(), y, channels, length, taps.shape[1], BLOCK=32)
    return [y]
