import torch


def get_inputs():
    return [torch.randn(50, 50).tril(), torch.randn(50, 30)]


def fused_operator(lower, b):
    """The first matrix is lower triangular."""
    return [torch.matmul(lower, b)]
