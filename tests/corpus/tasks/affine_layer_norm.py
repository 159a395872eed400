import torch


def get_inputs():
    return [torch.randn(13, 75), torch.rand(75) + 0.5, torch.randn(75)]


def fused_operator(x, weight, bias):
    return [torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)]
