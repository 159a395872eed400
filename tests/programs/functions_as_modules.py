"""Functions as modules, to lower them."""

import torch

from kernelwright.programs.lowering.lower import lower


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def lowered(function, *given):
    return lower(Calls(function), given).program
