import torch


def get_inputs():
    return [torch.randn(30, 70)]


def fused_operator(x0):
    """Works in place and returns the input itself."""
    x0.relu_()
    return [x0]
