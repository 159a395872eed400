"""Results have memory of their own where the module copies, and share memory where it does not."""

import pytest
import torch
from functions_as_modules import Calls

from kernelwright.programs.compose import compose
from kernelwright.programs.lowering import lower

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
    results = lowered.rebuild(namespace["fused_operator"](*inputs), (X,))
    wanted = module(X)
    assert owners(X, *results) == owners(X, *wanted)
    for result, tensor in zip(results, wanted, strict=True):
        assert torch.equal(result, tensor)


def owners(*tensors):
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [places.index(place) for place in places]
