import torch


def get_inputs():
    boundaries = torch.randn(21).sort().values
    return [torch.randn(9, 40), boundaries]


def fused_operator(x, boundaries):
    return [torch.bucketize(x, boundaries)]
