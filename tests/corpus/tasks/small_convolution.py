import torch
import torch.nn.functional as F


def get_inputs():
    return [torch.randn(2, 4, 5, 7), torch.randn(8, 4, 3, 3)]


def fused_operator(x, w):
    """Three by three, padded."""
    return [F.conv2d(x, w, padding=1)]
