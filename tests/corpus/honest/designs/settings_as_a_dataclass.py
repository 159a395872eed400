# what: a frozen dataclass is the only constant of a kernel
# task: relu

import torch
import triton
import triton.language as tl

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    block: int = 256
    name: str = "relu"


@triton.jit
def config_kernel(x, y, n, CONFIG: tl.constexpr):
    i = tl.program_id(0) * CONFIG.block + tl.arange(0, CONFIG.block)
    value = tl.load(x + i, i < n)
    if CONFIG.name == "relu":
        value = tl.maximum(value, 0)
    tl.store(y + i, value, i < n)


def fused_operator(x0):
    config, y = Config(), torch.empty_like(x0)
    config_kernel[(triton.cdiv(x0.numel(), config.block),)](x0, y, x0.numel(), CONFIG=config)
    return [y]
