import torch


class Scale(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.factors = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.randn(features)) for _ in range(3)]
        )

    def forward(self, x):
        for factor in self.factors:
            x = torch.tanh(x * factor)
        return x


class Model(torch.nn.Module):
    """Modules in modules, parameters in a list."""

    def __init__(self, features):
        super().__init__()
        self.body = torch.nn.Sequential(Scale(features), torch.nn.ReLU())
        self.shift = torch.nn.ParameterDict({"late": torch.nn.Parameter(torch.randn(features))})

    def forward(self, x):
        return self.body(x) + self.shift["late"]


def get_inputs():
    return [torch.randn(30, 40)]


def get_init_inputs():
    return [40]
