import torch


def get_inputs():
    return [torch.randn(11, 90)]


def fused_operator(scores):
    """The best value of each row, its place, and whether it is positive."""
    best = scores.max(dim=-1)
    return {"value": best.values, "index": best.indices, "positive": best.values > 0}
