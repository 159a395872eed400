# what: roll, partition and permutation as arithmetic on one index
# task: shifted_windows

import torch
import triton
import triton.language as tl


@triton.jit
def window_kernel(x, y, n, height, width, channels, window, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    channel, rest = i % channels, i // channels
    column, rest = rest % window, rest // window
    row, rest = rest % window, rest // window
    column, rest = column + rest % (width // window) * window, rest // (width // window)
    row, batch = row + rest % (height // window) * window, rest // (height // window)
    row, column = (row + shift) % height, (column + shift) % width
    place = ((batch * height + row) * width + column) * channels + channel
    tl.store(y + i, tl.load(x + place, i < n), i < n)


def fused_operator(x, window, shift):
    batch, height, width, channels = x.shape
    if window < 1 or height % window or width % window:
        raise ValueError("windows must divide the image")
    n, shift = x.numel(), shift % (height * width)
    y = torch.empty((n // (window * window * channels), window * window, channels), device=x.device)
    window_kernel[(triton.cdiv(n, 256),)](
        x.contiguous(), y, n, height, width, channels, window, shift, BLOCK=256
    )
    return [y]
