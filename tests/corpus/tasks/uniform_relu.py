import torch


def get_inputs():
    return [torch.rand(13, 41)]


def fused_operator(x0):
    return [torch.relu(x0) + 1]
