import torch


def get_inputs():
    a = torch.randn(26, 26)
    return [a + a.t(), torch.randn(26)]


def fused_operator(matrix, x):
    """The matrix is symmetric."""
    return torch.mv(matrix, x)
