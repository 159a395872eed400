import torch


class Model(torch.nn.Module):
    """Looks codes up in a table that is stored with the weights."""

    def __init__(self, codes, width):
        super().__init__()
        self.register_buffer("table", torch.randn(codes, width))

    def forward(self, index):
        return self.table[index]


def get_inputs():
    return [torch.randint(0, 16, (24,))]


def get_init_inputs():
    return [16, 12]
