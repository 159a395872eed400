import torch


def get_inputs():
    return [torch.randn(12, 20), 3]


def fused_operator(x, k):
    """Clamps each row between its k-th smallest and k-th largest value."""
    if not 0 <= k < x.shape[1]:
        raise ValueError("k must be smaller than the number of columns")
    ordered = x.sort(dim=-1).values
    low, high = ordered[:, k : k + 1], ordered[:, -k - 1 :][:, :1]
    return [torch.minimum(torch.maximum(x, low), high)]
