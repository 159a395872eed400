import torch


def get_inputs():
    return [torch.randn(37, 40)]


def fused_operator(x):
    """All products of rows."""
    return [x @ x.t()]
