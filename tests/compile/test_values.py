"""The backend computes the values of eager PyTorch, with the same changes and the same views."""

import copy

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from fake_finder import compiler
from torch import nn

from kernelwright.compile.memory import StaysWithInductor, layout


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, indices):
        return self.head(self.embedding(indices))


def cached(module, keys, position):
    """A step of a decoder: writes to a cache, reads all of the cache."""
    module.cache[:, position] = keys
    return module.cache @ keys.transpose(-1, -2)


def changed_input(_, x, y):
    y.mul_(2)
    return x[: len(y)] + y


def nested(_, x):
    return {"sum": x.sum(-1), "rest": [None, 3, (x * 2, x)]}


def views(module, x):
    module.total.add_(1)
    product = x @ x.t()
    return x[1:], module.total[0], product, product.t(), (x + 1).chunk(2, 1)


def copies(_, x):
    """A program drops calls that only copy, but their results have memory of their own."""
    y = x * 2
    return x.clone(), x.clone().view(64), x.contiguous(), y, y.clone(), y.t().contiguous().t()


def under_autocast(_, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.softmax(x @ x.t(), dim=-1) @ x, torch.fmax(x, x.t() @ x @ x.t() @ x)


X, TWICE = torch.randn(8, 8), torch.randn(8, 8)
MODELS = {
    "dropout in training mode": (nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0)), (X,)),
    "plain": (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Softmax(-1)), (X,)),
    "convolution": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)).eval(),
        (torch.randn(2, 3, 8, 8),),
    ),
    "channels last": (
        nn.Conv2d(3, 4, 3),
        (torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),),
    ),
    "attention": (nn.MultiheadAttention(8, 2, batch_first=True).eval(), (X[None],) * 3),
    "batch norm in training mode": (nn.BatchNorm1d(8), (X,)),
    "cache": (
        Function(cached, cache=torch.zeros(2, 5, 8)),
        (torch.randn(2, 1, 8), torch.tensor([3])),
    ),
    "changed input": (Function(changed_input), (X, torch.randn(8, 8))),
    "changed strided input": (Function(changed_input), (X, torch.randn(8, 16)[:, ::2])),
    "sparse in memory": (
        Function(lambda _, x: ((x @ x).sum(0).expand(3, 8), (x + 1)[:, ::2], x.exp().t())),
        (X,),
    ),
    "one tensor twice": (Function(changed_input), (TWICE, TWICE)),
    "inputs that share memory": (Function(changed_input), (TWICE.view(8, 8), TWICE[:4])),
    "nested results": (Function(nested), (X,)),
    "views of inputs, buffers and results": (Function(views, total=torch.zeros(3, 4)), (X,)),
    "autocast": (Function(under_autocast), (X,)),
    "tied weights": (Tied(), (torch.tensor([[1, 2], [0, 6]]),)),
    "strided input": (nn.Linear(8, 4), (torch.randn(8, 6).t(),)),
    "expanded input": (nn.GELU(), (torch.randn(8, 1).expand(8, 3),)),
    "constants": (Function(lambda _, x: torch.minimum(x * torch.tensor(3.0), x.exp())), (X,)),
    "composites": (
        Function(lambda _, x: F.glu(torch.einsum("ij,kj->ik", x, x)) + F.hardshrink(x[:, :4])),
        (X,),
    ),
    "copies": (Function(copies), (X,)),
    "integers": (Function(lambda _, x: (x // 2, x % 3 == 1)), (torch.arange(12).reshape(3, 4),)),
}

VIEW = "an output is a view of an input or of another output"
LEFT = {
    "views of inputs, buffers and results": VIEW,
    "copies": VIEW,
    "nested results": VIEW,
    "inputs that share memory": "PyTorch runs this module, but torch.export",
}
"""How the reasons begin why Inductor keeps the graphs of some models."""


def shared_memory(*values):
    """Which of the tensors share memory, and where in it they begin."""
    tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    bases = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [(bases.index(base), t.storage_offset()) for base, t in zip(bases, tensors, strict=True)]


def layouts(value):
    """Shapes, dtypes and strides. Where a size is 1, the stride says nothing."""
    tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    strides = [
        [step for step, size in zip(t.stride(), t.shape, strict=True) if size > 1] for t in tensors
    ]
    return [(t.shape, t.dtype, steps) for t, steps in zip(tensors, strides, strict=True)]


def assert_same(model, fast, *args):
    """Two calls give the same results, and leave the same inputs and buffers."""
    theirs, ours = args, copy.deepcopy(args)
    for _ in range(2):
        wanted, result = model(*theirs), fast(*ours)
        torch.testing.assert_close(result, wanted)
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(fast.state_dict(), prefixed(model.state_dict()))
        assert layouts(result) == layouts(wanted)
        buffers, fast_buffers = list(model.buffers()), list(fast.buffers())
        assert shared_memory(ours, fast_buffers, result) == shared_memory(theirs, buffers, wanted)


def prefixed(state):
    return {f"_orig_mod.{name}": value for name, value in state.items()}


@pytest.mark.slow
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", MODELS)
def test_kernels_serve_what_eager_computes(name, context):
    model, args = copy.deepcopy(MODELS[name])
    ours = compiler()
    fast = torch.compile(copy.deepcopy(model), backend=ours)
    with context():
        assert_same(model, fast, *args)
    reasons = [report.why for report in ours.reports if report.runs != "own kernels"]
    assert all(reason.startswith(LEFT[name]) for reason in reasons), reasons


def test_both_modes_of_a_module():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    fast = torch.compile(copy.deepcopy(model), backend=compiler())
    with torch.no_grad():
        for training in (True, False, True):
            assert_same(model.train(training), fast.train(training), X)


@pytest.mark.parametrize("base", [lambda x: x, lambda x: x * 2], ids=["input", "output"])
def test_an_output_that_shows_memory_as_another_dtype_stays_with_inductor(base):
    graph = torch.fx.symbolic_trace(lambda x: ((shown := base(x)), shown.view(torch.int32)))
    with pytest.raises(StaysWithInductor, match="another dtype"):
        layout(graph, [torch.randn(3, 4)])
