"""A gated layer norm: LayerNorm(x) * SiLU(gate), row by row in one kernel."""

import torch
from torch import nn

BATCH, LENGTH, WIDTH = 4, 32, 128


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * nn.functional.silu(gate)  # (batch, length, width)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH]
