# what: as many programs as the device has multiprocessors, each walks over tiles
# task: relu

import functools

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    tile = tl.program_id(0)
    while tile * BLOCK < n:
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)
        tile += tl.num_programs(0)


@functools.lru_cache
def num_multiprocessors(index):
    return torch.cuda.get_device_properties(index).multi_processor_count


def fused_operator(x0):
    y = torch.empty_like(x0)
    tiles = triton.cdiv(x0.numel(), 256)
    grid = (min(num_multiprocessors(x0.device.index or 0), tiles),)
    relu_kernel[grid](x0, y, x0.numel(), BLOCK=256)
    return [y]
