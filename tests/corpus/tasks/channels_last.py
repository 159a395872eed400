import torch


def get_inputs():
    x = torch.randn(2, 8, 10, 12)
    return [x.contiguous(memory_format=torch.channels_last)]


def fused_operator(x0):
    return [torch.relu(x0)]
