# what: computes the angles in double precision instead of reading a table
# task: rotary_positions

import torch
import triton
import triton.language as tl


@triton.jit
def rotate_kernel(q, positions, y, tokens, half, log_base, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = i < half
    power = tl.div_rn(i.to(tl.float32), (half + tl.program_id(1)).to(tl.float32))
    frequency = tl.exp(power.to(tl.float64) * -log_base).to(tl.float32)
    angle = tl.load(positions + row % tokens).to(tl.float32) * frequency
    cos = tl.cos(angle.to(tl.float64)).to(tl.float32)
    sin = tl.sin(angle.to(tl.float64)).to(tl.float32)
    place = row * 2 * half + i
    a, b = tl.load(q + place, inside), tl.load(q + place + half, inside)
    tl.store(y + place, a * cos - b * sin, inside)
    tl.store(y + place + half, a * sin + b * cos, inside)


def fused_operator(q, positions):
    tokens, width = q.shape[-2:]
    if width % 2 or positions.numel() != tokens:
        raise ValueError("an even width and a position for each token are needed")
    q = q.contiguous()
    y, block = torch.empty_like(q), triton.next_power_of_2(width // 2)
    grid = (q.numel() // width, 1)
    log_base = 9.210340371976184
    rotate_kernel[grid](q, positions.contiguous(), y, tokens, width // 2, log_base, BLOCK=block)
    return [y]
