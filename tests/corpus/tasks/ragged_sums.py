import torch


def get_inputs():
    lengths = torch.randint(0, 9, (12,))
    lengths[0] = 96 - lengths[1:].sum()
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return [torch.randn(96, 10), offsets]


def fused_operator(values, offsets):
    """The sum of each segment of rows; segments may be empty."""
    segments = offsets.numel() - 1
    row = torch.arange(values.shape[0], device=values.device)
    owner = torch.searchsorted(offsets, row, right=True) - 1
    owner = owner.clamp(0, segments - 1)
    total = torch.zeros(segments, values.shape[1], dtype=values.dtype, device=values.device)
    return [total.index_add_(0, owner, values)]
