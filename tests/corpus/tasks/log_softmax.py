import torch


def get_inputs():
    return [torch.randn(9, 44)]


def fused_operator(x0):
    return [torch.log_softmax(x0, -1)]
