import torch


def get_inputs():
    scale = torch.randn(7, 1).expand(7, 30)
    return [torch.randn(60, 14)[::2, ::2].t(), scale]


def fused_operator(x, scale):
    """Inputs are a transposed slice and an expanded column; the output is transposed again."""
    y = torch.nn.functional.silu(x * scale)
    return [y.contiguous().t(), (y > 0).all(dim=1)]
