import torch


def get_inputs():
    return [torch.randn(20, 11)]


def fused_operator(x):
    """Rows in ascending order, with the old places; equal values keep their order."""
    result = torch.sort(x, dim=-1, stable=True)
    return result.values, result.indices
