import torch


def get_inputs():
    return [torch.randn(20, 16), torch.randn(0, 16)]


def fused_operator(x0, x1):
    """The second batch has no rows."""
    return [torch.relu(x0), torch.relu(x1)]
