import torch


def get_inputs():
    return [torch.randn(700), 16]


def fused_operator(x, levels):
    """How often each level of (-3, 3) occurs; values outside count at the ends."""
    level = ((x + 3) * (levels / 6)).floor().clamp(0, levels - 1).to(torch.int64)
    counts = torch.zeros(levels, dtype=torch.int64, device=x.device)
    return [counts.index_add(0, level, torch.ones_like(level)), level]
