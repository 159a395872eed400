import torch


def get_inputs():
    return [torch.randn(13, 50)]


def fused_operator(x):
    """The largest value so far, and its last place."""
    best, index = torch.cummax(x, dim=-1)
    return best, index
