import torch


def get_inputs():
    x0 = torch.randn((6, 120), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    """Mean and variance of each row."""
    return [x0.mean(-1), x0.var(-1, correction=0)]
