"""A residual MLP, in KernelBench's format: Linear, GELU, Linear, and the input added back.

Both matrix products can take what follows them into their own kernel: GELU rides on the first,
the residual on the second.
"""

import torch
from torch import nn

BATCH, WIDTH, HIDDEN = 64, 96, 192


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (batch, width)
        return x + self.down(nn.functional.gelu(self.up(x)))


def get_inputs():
    return [torch.randn(BATCH, WIDTH)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
