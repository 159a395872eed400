"""A module for searches on a GPU."""

import torch
from torch import nn

WIDTH = 4096


class Scores(nn.Module):
    """Large enough that a kernel wins: launches take no part of the time."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        return torch.softmax(x * 0.125 + self.shift, -1) * torch.tanh(x)
