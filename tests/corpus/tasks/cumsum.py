import torch


def get_inputs():
    x0 = torch.randn((20, 200), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.cumsum(x0, dim=-1)
    return [t0]
