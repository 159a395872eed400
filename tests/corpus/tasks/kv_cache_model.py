import torch


class Model(torch.nn.Module):
    """One token a call, beside those before; the cache is a ring."""

    def __init__(self, batch, capacity, width):
        super().__init__()
        self.register_buffer("keys", torch.zeros(batch, capacity, width))
        self.register_buffer("values", torch.zeros(batch, capacity, width))
        self.position = 0

    def forward(self, q, k, v):
        slot = self.position % self.keys.shape[1]
        self.keys[:, slot] = k
        self.values[:, slot] = v
        self.position += 1
        filled = min(self.position, self.keys.shape[1])
        scores = torch.einsum("bd,btd->bt", q, self.keys[:, :filled]) * q.shape[-1] ** -0.5
        return torch.einsum("bt,btd->bd", scores.softmax(-1), self.values[:, :filled])


def get_inputs():
    return [torch.randn(5, 16) for _ in range(3)]


def get_init_inputs():
    return [5, 6, 16]
