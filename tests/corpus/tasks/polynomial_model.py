import torch


class Model(torch.nn.Module):
    """A learned polynomial of a bounded number."""

    def __init__(self, degree):
        super().__init__()
        self.coefficients = torch.nn.Parameter(torch.randn(degree + 1))

    def forward(self, x):
        x = x / (1 + x.abs())
        powers = torch.stack([x**k for k in range(len(self.coefficients))], -1)
        return (powers * self.coefficients).sum(-1)


def get_inputs():
    return [torch.randn(15, 20)]


def get_init_inputs():
    return [5]
