import torch


def get_inputs():
    return [torch.randn(2, 3, 9, 10)]


def fused_operator(x):
    """Averages of 3 by 3 that count no padding."""
    return [torch.nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)]
