import torch


def get_inputs():
    return [torch.randn(30, 70)]


def fused_operator(x0):
    """The input itself, a view of it, and something computed."""
    return [x0, x0[:, ::2], torch.relu(x0)]
