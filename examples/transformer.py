"""A transformer block behind a factory.

    kernelwright optimize examples.transformer:transformer_block

A factory takes nothing and returns a module with the inputs of a typical call. The block is written
as in many code bases: RMS norm before attention and before a SwiGLU feed-forward.
"""

import torch
from torch import nn
from torch.nn import functional as F

BATCH, LENGTH, WIDTH, HEADS, HIDDEN = 2, 32, 64, 4, 128


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def attend(self, x: torch.Tensor) -> torch.Tensor:  # (batch, length, width)
        q, k, v = (
            part.view(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )  # (batch, heads, length, width / heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def transformer_block() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return Block().eval(), (torch.randn(BATCH, LENGTH, WIDTH),)
