"""torch.compile that replays CUDA graphs, and the optimized.py that holds it."""

import threading
from types import SimpleNamespace

import pytest
import torch

from kernelwright.search.contest.graph_trees import can_be_copied, replayed
from kernelwright.search.module import original

MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, 3)

    def forward(self, x, *, factor=1.0):
        return {"y": self.linear(x) * factor}
"""
FLAT = """
import torch


def fused_operator(x):
    return [torch.relu(x)]
"""


@pytest.fixture
def static_results(monkeypatch):
    """A torch.compile whose results lie in the same memory after every call, as those of a graph;
    the options that it was given."""
    given = []

    def compiled(call, options):
        given.append(options)
        kept = []

        def replay(*args, **kwargs):
            tensors, spec = torch.utils._pytree.tree_flatten(call(*args, **kwargs))
            if not kept:
                kept.extend(tensor.clone() for tensor in tensors)
            for mine, new in zip(kept, tensors, strict=True):
                mine.copy_(new)
            return torch.utils._pytree.tree_unflatten(kept, spec)

        return replay

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: None)
    return given


def loaded(text):
    namespace = {}
    exec(text, namespace)
    return SimpleNamespace(**namespace)


def test_results_outlive_the_next_call(static_results):
    call = replayed(lambda x: x + 1, {})
    first = call(torch.zeros(2))
    call(torch.ones(2))
    assert first.tolist() == [1.0, 1.0]
    assert static_results == [{"triton.cudagraphs": True}]


def test_another_thread_calls_the_function_itself(static_results):
    def who(x):
        return x + (threading.current_thread() is threading.main_thread())

    call, results = replayed(who, {}), []
    thread = threading.Thread(target=lambda: results.append(call(torch.zeros(1))))
    thread.start()
    thread.join()
    assert results[0].item() == 0.0


@pytest.mark.parametrize("moves_layouts", [True, False])
def test_a_model_replays_graphs(static_results, moves_layouts):
    file = loaded(original.model_compiled(MODEL, moves_layouts=moves_layouts, is_graph=True))
    model, x = file.ModelNew(4), torch.randn(2, 4)
    first = model(x, factor=2.0)["y"]
    model(torch.zeros(2, 4))
    torch.testing.assert_close(first, model.linear(x) * 2.0)
    layouts = {} if moves_layouts else {"layout_optimization": False}
    assert static_results == [{"triton.cudagraphs": True} | layouts]


def test_a_flat_program_replays_graphs(static_results):
    file = loaded(original.flat_compiled(FLAT, is_graph=True))
    [first] = file.fused_operator(torch.ones(2))
    file.fused_operator(-torch.ones(2))
    assert first.tolist() == [1.0, 1.0]


def test_the_module_of_a_factory_replays_graphs(static_results):
    file = loaded(original.factory_compiled("package.module:factory", is_graph=True))
    module = file.attach(torch.nn.ReLU())
    first = module(torch.ones(2))
    module(-torch.ones(2))
    assert first.tolist() == [1.0, 1.0]


def test_results_in_unknown_containers_are_not_copied():
    class Container:
        tensor = torch.zeros(1)

    assert can_be_copied({"y": (torch.zeros(1), [None, 2, True, "text"])})
    assert not can_be_copied([Container()])
