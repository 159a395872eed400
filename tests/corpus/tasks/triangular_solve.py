import torch


def get_inputs():
    lower = torch.randn(4, 12, 12).tril(-1) * 0.3
    lower = lower + torch.diag_embed(torch.rand(4, 12) + 1)
    return [lower, torch.randn(4, 12, 7)]


def fused_operator(lower, b):
    return [torch.linalg.solve_triangular(lower, b, upper=False)]
