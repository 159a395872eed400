"""Modules whose forward changes state: lowered with the change, or refused with its name."""

import torch
from odd_modules import LOWERED, REFUSED, X, refused
from torch import nn


class Remembers(nn.Module):
    """State of every kind; a subclass says how forward changes the state."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(3, 4))
        self.weight = nn.Parameter(torch.ones(3, 4))
        self.calls, self.hidden, self.cache, self.history = 0, None, {}, [1.0]


def remembering(function):
    """A module of state with this forward."""
    kind = type(function.__name__, (Remembers,), {"forward": function})
    return kind()


def lowered_state(function):
    LOWERED[function.__name__] = remembering(function), (X,), {}
    return function


def refused_state(words):
    def add(function):
        REFUSED[function.__name__] = remembering(function), (X,), words
        return function

    return add


@lowered_state
def buffer_assigned(self, x):
    self.mean = 0.9 * self.mean + 0.1 * x
    return x - self.mean


@lowered_state
def data_changed_in_place(self, x):
    self.mean.data.mul_(0.9).add_(x.data)
    return x + self.mean + self.weight.data


@lowered_state
def data_assigned(self, x):
    self.mean.data = self.mean * 0.5 + x
    return x + self.mean


@lowered_state
def data_of_a_result(self, x):
    y = x * 2
    y.data[0] = 3
    return y


@refused_state("changes calls, and its next result")
def counter(self, x):
    self.calls += 1
    return x / self.calls


@refused_state("changes hidden, and its next result")
def state_that_begins_as_none(self, x):
    self.hidden = x if self.hidden is None else self.hidden * 0.5 + x
    return self.hidden * 2


@refused_state("changes cache, and its next result")
def state_in_a_dict(self, x):
    self.cache["sum"] = self.cache.get("sum", 0) + x
    return self.cache["sum"] + 1


@refused_state("changes history, and its next result")
def list_that_grows(self, x):
    self.history.append(2.0)
    return x * sum(self.history)


@refused_state("assigns a new tensor to the parameter 'weight'")
def parameter_assigned(self, x):
    self.weight = nn.Parameter(self.weight + x)
    return x * 2


@refused_state("changes the parameter 'weight' in place")
def parameter_changed_in_place(self, x):
    self.weight.data.add_(x)
    return x * self.weight


@refused_state("another shape or dtype to .data")
def data_of_another_shape(self, x):
    self.mean.data = x[0]
    return x + self.mean


@refused("cannot follow a tensor that forward makes", X)
def gradient_of_the_parameters(self, x):
    x = x.detach().requires_grad_(True)
    layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    with torch.enable_grad():
        return torch.autograd.grad(layer(x).sum(), x)[0]


@refused("depends on the values", X)
def compared_as_a_whole(self, x):
    assert torch.allclose(x, x)
    return x * 2


@refused("an object of torch._C.Generator", X)
def generator_of_its_own(self, x):
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
