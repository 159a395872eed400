import torch


def get_inputs():
    return [torch.randn(10, 60)]


def fused_operator(x0):
    variance, mean = torch.var_mean(x0, -1, correction=0, keepdim=True)
    return [(x0 - mean) * torch.rsqrt(variance + 1e-5)]
