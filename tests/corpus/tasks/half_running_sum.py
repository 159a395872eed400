import torch


def get_inputs():
    return [torch.randn(17, 24, dtype=torch.float16) * 0.1]


def fused_operator(x):
    """Adds columns one after the other, in half precision."""
    total = torch.zeros_like(x[:, 0])
    for column in range(x.shape[1]):
        total = total + x[:, column]
    return [total]
