import torch


class Model(torch.nn.Module):
    """Layer norm whose affine parameters start as ones and zeros."""

    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(64, 96)]


def get_init_inputs():
    return [96]
