import torch


def get_inputs():
    return [torch.randn(2, 3, 11, 13)]


def fused_operator(x):
    """Maxima of 3 by 3 at every second pixel, padded, and their flat places."""
    best, places = torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    return best, places
