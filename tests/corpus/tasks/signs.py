import torch


def get_inputs():
    return [torch.randn(300)]


def fused_operator(x0):
    return [torch.sign(x0)]
