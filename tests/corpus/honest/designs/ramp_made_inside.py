# what: a buffer that is no part of the state is computed from indices
# task: normalised_images_model

import torch
import triton
import triton.language as tl


@triton.jit
def normalise_kernel(x, mean, deviation, y, n, channels, size, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel, place = i // size % channels, i % size
    centred = tl.load(x + i, i < n, 0.0) - tl.load(mean + channel)
    from_left = place.to(tl.float32) * step - 1
    ramp = tl.where(place < size // 2, from_left, 1 - (size - 1 - place).to(tl.float32) * step)
    tl.store(y + i, centred / tl.load(deviation + channel) + ramp, i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.register_buffer("mean", torch.rand(channels, 1))
        self.register_buffer("deviation", torch.rand(channels, 1) + 0.5)
        self.size = size

    def forward(self, x):
        channels = self.mean.shape[0]
        if self.size < 2 or x.shape[-2:] != (channels, self.size):
            raise ValueError(f"made for {channels} channels of size {self.size}")
        x, n = x.contiguous(), x.numel()
        y = torch.empty_like(x)
        step = 2 / (self.size - 1)
        normalise_kernel[(triton.cdiv(n, 128),)](
            x, self.mean, self.deviation, y, n, channels, self.size, step, BLOCK=128
        )
        return y
