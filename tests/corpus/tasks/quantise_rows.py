import torch


def get_inputs():
    return [torch.randn(12, 50)]


def fused_operator(x):
    """Symmetric int8 with a scale for each row; rows of zeros have scale one."""
    top = x.abs().amax(-1, keepdim=True)
    scale = torch.where(top == 0, 1.0, top / 127)
    return [(x / scale).round().clamp(-127, 127).to(torch.int8), scale]
