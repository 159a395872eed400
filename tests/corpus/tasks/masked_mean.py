import torch


def get_inputs():
    return [torch.randn(6, 32), torch.ones(6, 32, dtype=torch.bool)]


def fused_operator(x0, mask):
    kept = torch.where(mask, x0, torch.zeros_like(x0))
    return [kept.sum(-1) / mask.sum(-1).clamp(min=1)]
