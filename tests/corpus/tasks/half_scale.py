import torch


def get_inputs():
    return [torch.randn(6, 50)]


def fused_operator(x0):
    return [(torch.tanh(x0) * 4).half()]
