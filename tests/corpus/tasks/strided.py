import torch


def get_inputs():
    return [torch.randn(40, 24).t(), torch.randn(1, 40).expand(24, 40)]


def fused_operator(x0, x1):
    """A transposed and an expanded input."""
    return [torch.relu(x0 + x1)]
