# what: a running minimum over codes, and an atomic sum of distances
# task: codebook_model

import torch
import triton
import triton.language as tl


@triton.jit
def nearest_kernel(x, codes, nearest, index, loss, n, count, width, D: tl.constexpr):
    row, d = tl.program_id(0).to(tl.int64), tl.arange(0, D)
    values = tl.load(x + row * width + d, d < width, 0.0)
    best, place = tl.sum(tl.zeros((D,), tl.float32)) + float("inf"), tl.program_id(0) * 0
    for code in range(count):
        gap = values - tl.load(codes + code * width + d, d < width, 0.0)
        distance = tl.sum(gap * gap)
        wins = (distance < best) | ((distance != distance) & (best == best))
        best, place = tl.where(wins, distance, best), tl.where(wins, code, place)
    chosen = tl.load(codes + place * width + d, d < width, 0.0)
    tl.store(nearest + row * width + d, chosen, d < width)
    tl.store(index + row, place.to(tl.int64))
    gap = values - chosen
    tl.atomic_add(loss, tl.sum(gap * gap) / n)


class ModelNew(torch.nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.register_buffer("codes", torch.randn(codes, width))

    def forward(self, x):
        count, width = self.codes.shape
        if x.ndim != 2 or x.shape[1] != width:
            raise ValueError(f"rows of width {width} are needed")
        nearest = torch.empty(x.shape, device=x.device)
        index = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
        loss, block = torch.zeros((), device=x.device), triton.next_power_of_2(width)
        nearest_kernel[(x.shape[0],)](
            x.contiguous(), self.codes, nearest, index, loss, x.numel(), count, width, D=block
        )
        return nearest, index, loss
