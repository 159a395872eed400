import torch


def get_inputs():
    return [torch.randn(30, 50), torch.randn(30, 50)]


def fused_operator(x0, x1):
    """A mask, and what it selects."""
    mask = x0 > x1
    return [mask, torch.where(mask, x0, x1)]
