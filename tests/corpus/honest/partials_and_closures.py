# what: functools.partial around a launch, a grid in a closure, an enum and a dataclass
# task: relu

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass
from typing import Callable

import torch
import triton
import triton.language as tl


class Size(enum.IntEnum):
    SMALL = 256
    LARGE = 1024


@dataclass(frozen=True)
class Config:
    block: Size
    warps: int = 4

    def grid(self, n: int) -> tuple[int]:
        return (math.ceil(n / self.block),)


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def launch(config: Config, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    n = x.numel()
    relu_kernel[config.grid(n)](x, y, n, BLOCK=int(config.block), num_warps=config.warps)
    return y


CHOICES: dict[bool, Callable[[torch.Tensor], torch.Tensor]] = {
    large: functools.partial(launch, Config(Size.LARGE if large else Size.SMALL))
    for large in (False, True)
}


def fused_operator(x0: torch.Tensor) -> list[torch.Tensor]:
    return [CHOICES[x0.numel() > 2000](x0)]
