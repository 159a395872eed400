"""Results have memory of their own where the module copies, and share memory where it does not."""

import pytest
import torch
from functions_as_modules import Calls

from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.reference import run

X = torch.arange(8.0).reshape(2, 4)


def copies(x):
    y = x * 2
    return x.clone(), x.clone().view(8), y, y.clone(), y.t().contiguous().t()


def views(x):
    y = x * 2
    return x, x.view(8), y, y.t(), y[1:]


def chunks_and_copies(x):
    first, second = (x + 1).chunk(2, 1)
    return first, second.clone(), second


@pytest.mark.parametrize("function", [copies, views, chunks_and_copies])
def test_results_share_memory_as_those_of_the_module_do(function):
    module, lowered = Calls(function), lower(Calls(function), (X,))
    namespace = {}
    exec(compose(lowered.program, []).source, namespace)
    inputs = lowered.gather(module, (X,))
    outputs = lowered.separated(namespace["fused_operator"](*inputs))
    results = lowered.rebuild(outputs, (X,))
    wanted = module(X)
    assert owners(X, *results) == owners(X, *wanted)
    for result, tensor in zip(results, wanted, strict=True):
        assert torch.equal(result, tensor)


def contiguous_copies(x):
    y = x * 2
    return x.t().contiguous(), x.clone(), y.t().contiguous(), y, x.t(), y.t().reshape(8)


def test_results_are_contiguous_where_those_of_the_module_are():
    module, lowered = Calls(contiguous_copies), lower(Calls(contiguous_copies), (X,))
    for x in (X, torch.arange(8.0).reshape(4, 2).t()):
        results = lowered.rebuild(lowered.separated(run(lowered.program, [x])), (x,))
        for result, wanted in zip(results, module(x), strict=True):
            assert result.stride() == wanted.stride() or result.is_contiguous()
            assert not wanted.is_contiguous() or result.is_contiguous()


class State(torch.nn.Module):
    """Buffers in another order than the one in which they change."""

    def __init__(self):
        super().__init__()
        for number, name in enumerate("bac"):
            self.register_buffer(name, torch.full((3,), float(number)))


class Rotation(State):
    def forward(self, x):
        before = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(self.c)
        self.c.copy_(before)
        return x * 2


class OldValue(State):
    def forward(self, x):
        before = self.a.clone()
        self.a.add_(x)
        return before, self.a.clone()


class Kept(State):
    def forward(self, x):
        self.a.copy_(x)
        self.b.copy_(x.view(3))
        return x + self.c


@pytest.mark.parametrize("kind", [Rotation, OldValue, Kept])
def test_state_that_changes_is_not_read_afterwards(kind):
    module, other, x = kind(), kind(), torch.ones(3)
    lowered = lower(module, (x,))
    namespace = {}
    exec(compose(lowered.program, []).source, namespace)
    for _ in range(2):
        outputs = lowered.separated(namespace["fused_operator"](*lowered.gather(module, (x,))))
        lowered.store(module, outputs)
        torch.testing.assert_close(lowered.rebuild(outputs, (x,)), other(x))
        torch.testing.assert_close(module.state_dict(), other.state_dict())


def owners(*tensors):
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [places.index(place) for place in places]
