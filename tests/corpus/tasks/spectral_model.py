import torch


class Model(torch.nn.Module):
    """Weights divided by their largest singular value; one power iteration a call in training."""

    def __init__(self, features, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outputs, features))
        self.register_buffer("u", torch.nn.functional.normalize(torch.randn(outputs), dim=0))

    def forward(self, x):
        v = torch.nn.functional.normalize(self.weight.t() @ self.u, dim=0, eps=1e-12)
        w = self.weight @ v
        if self.training:
            self.u.copy_(torch.nn.functional.normalize(w, dim=0, eps=1e-12))
        return torch.nn.functional.linear(x, self.weight / (self.u @ w))


def get_inputs():
    return [torch.randn(11, 20)]


def get_init_inputs():
    return [20, 14]
