import torch


def get_inputs():
    return [torch.randn(8, 20), torch.full((8,), 20)]


def fused_operator(x0, lengths):
    inside = torch.arange(x0.shape[1], device=x0.device) < lengths[:, None]
    return [(x0 * inside).sum(-1)]
