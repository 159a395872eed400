import torch


def get_inputs():
    return [torch.randn(7, 25)]


def fused_operator(x0):
    return [torch.nan_to_num(x0, nan=0.0, posinf=3.0, neginf=-3.0) * 2]
