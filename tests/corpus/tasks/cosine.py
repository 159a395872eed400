import torch


def get_inputs():
    return [torch.randn(9, 50), torch.randn(9, 50)]


def fused_operator(x0, x1):
    return [torch.nn.functional.cosine_similarity(x0, x1, dim=-1)]
