import torch


def get_inputs():
    return [torch.rand(300, 300), torch.randint(0, 1000, (10,))]


def fused_operator(x0, x1):
    return [x1[(x0 * 10.0).long()]]
