import torch


def get_inputs():
    return [torch.randn(11, 29), 0.5]


def fused_operator(x0, factor):
    return [torch.relu(x0) * factor]
