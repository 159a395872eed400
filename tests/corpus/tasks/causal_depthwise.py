import torch


def get_inputs():
    return [torch.randn(2, 6, 30), torch.randn(6, 4), torch.randn(6)]


def fused_operator(x, taps, bias):
    """A filter for each channel that looks back only, and SiLU."""
    padded = torch.nn.functional.pad(x, (taps.shape[1] - 1, 0))
    y = torch.nn.functional.conv1d(padded, taps[:, None], bias, groups=x.shape[1])
    return [torch.nn.functional.silu(y)]
