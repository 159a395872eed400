import torch


def get_inputs():
    return [torch.randn(50, 40), torch.tensor(1.5), 2]


def fused_operator(x0, scale, power):
    """A 0-d tensor and a plain number come in, a 0-d tensor goes out."""
    y = x0 * scale * power
    return [y, y.sum()]
