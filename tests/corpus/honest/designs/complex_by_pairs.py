# what: complex numbers as pairs of floats, and a magnitude that does not overflow early
# task: complex_gain

import torch
import triton
import triton.language as tl


@triton.jit
def gain_kernel(signal, gain, filtered, size, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = i % columns
    a, b = tl.load(signal + 2 * i, i < n, 0.0), tl.load(signal + 2 * i + 1, i < n, 0.0)
    c, d = tl.load(gain + 2 * column), tl.load(gain + 2 * column + 1)
    real, imaginary = a * c - b * d, a * d + b * c
    tl.store(filtered + 2 * i, real, i < n)
    tl.store(filtered + 2 * i + 1, imaginary, i < n)
    large = tl.maximum(tl.abs(real), tl.abs(imaginary))
    small = tl.minimum(tl.abs(real), tl.abs(imaginary))
    ratio = small / tl.where((large == 0) | (large == float("inf")), 1.0, large)
    ratio = tl.where(large == float("inf"), 0.0, ratio)
    tl.store(size + i, large * tl.sqrt(1 + ratio * ratio), i < n)


def fused_operator(signal, gain):
    signal, gain = signal.contiguous(), gain.contiguous()
    filtered = torch.empty_like(signal)
    size = torch.empty(signal.shape, device=signal.device)
    n = signal.numel()
    gain_kernel[(triton.cdiv(n, 128),)](
        torch.view_as_real(signal),
        torch.view_as_real(gain),
        torch.view_as_real(filtered),
        size,
        n,
        gain.shape[-1],
        BLOCK=128,
    )
    return [filtered, size]
