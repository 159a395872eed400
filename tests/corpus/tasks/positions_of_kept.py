import torch


def get_inputs():
    return [(torch.rand(900) > 0.6).to(torch.int64)]


def fused_operator(kept):
    """Exclusive running counts."""
    return [kept.cumsum(0) - kept]
