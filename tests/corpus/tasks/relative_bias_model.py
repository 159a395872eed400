import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(9, heads)

    def forward(self, x):
        t = x.shape[1]
        i = torch.arange(t, device=x.device)
        d = (i[:, None] - i[None, :]).clamp(-4, 4) + 4
        bias = self.table(d).permute(2, 0, 1)
        return bias.unsqueeze(0).expand(x.shape[0], -1, -1, -1)


def get_inputs():
    return [torch.randn(3, 11, 2)]


def get_init_inputs():
    return [4]
