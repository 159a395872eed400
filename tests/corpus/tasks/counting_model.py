import torch


class Model(torch.nn.Module):
    """Warms up: the first calls are damped."""

    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * min(1.0, self.step / 4)


def get_inputs():
    return [torch.randn(7, 33)]


def get_init_inputs():
    return []
