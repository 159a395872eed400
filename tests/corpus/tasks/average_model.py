import torch


class Model(torch.nn.Module):
    """Keeps a moving average and counts its calls; both are buffers."""

    def __init__(self, features):
        super().__init__()
        self.register_buffer("average", torch.zeros(features))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.calls += 1
        return x - self.average


def get_inputs():
    return [torch.randn(48, 20)]


def get_init_inputs():
    return [20]
