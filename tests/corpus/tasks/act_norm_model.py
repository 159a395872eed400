import torch


class Model(torch.nn.Module):
    """The first batch sets mean and scale; later batches use them."""

    def __init__(self, features):
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.is_ready = False

    def forward(self, x):
        if not self.is_ready:
            self.mean.copy_(x.mean(0))
            self.scale.copy_(1 / (x.std(0, unbiased=False) + 1e-3))
            self.is_ready = True
        return (x - self.mean) * self.scale


def get_inputs():
    return [torch.randn(24, 15) * 2 + 1]


def get_init_inputs():
    return [15]
