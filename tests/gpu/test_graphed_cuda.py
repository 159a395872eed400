"""`optimized.py` as a CUDA graph: it follows whatever changes, and the search keeps it where
launches are what takes the time."""

import copy
import gc

import pytest
import torch

from kernelwright.core import record
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import lower
from kernelwright.search.api import optimize
from kernelwright.search.contest.captured import captured_calls
from kernelwright.search.module.emit import model_file
from kernelwright.search.module.guards import LoweredModule
from kernelwright.search.module.importing import import_file
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions

MODEL = """
import torch


def block():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU())


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(*(block() for _ in range(8)))

    def forward(self, x):
        return self.blocks(x)


def get_inputs():
    return [torch.randn(256, 64)]


def get_init_inputs():
    return []
"""


def draw() -> torch.Tensor:
    return torch.randn(256, 64, device="cuda")


@pytest.fixture
def pair(tmp_path):
    """The original, its graph with the same weights, and the module that the graph is in."""
    path = tmp_path / "original.py"
    path.write_text(MODEL)
    original = import_file(path).Model().cuda()
    lowered = lower(original, (draw(),))
    composed = compose(lowered.program, []).source
    path = tmp_path / "optimized.py"
    traced = LoweredModule(module=original, lowered=lowered, is_for_one_mode=True)
    path.write_text(model_file(MODEL, traced, composed, is_graphed=True))
    imported = import_file(path)
    ours = imported.ModelNew().cuda()
    ours.load_state_dict(original.state_dict())
    with torch.no_grad():
        yield original, ours, imported


def check(original, ours, x=None) -> None:
    """One call of each: results and everything in the modules agree."""
    x = draw() if x is None else x
    torch.testing.assert_close(ours(x), original(x))
    for one, two in zip(ours.state_dict().values(), original.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two)


def test_a_graph_follows_inputs_of_any_strides_and_moves_statistics_once_a_call(pair):
    original, ours, _ = pair
    for x in (draw(), draw(), torch.randn(64, 256, device="cuda").T):
        check(original, ours, x)
    first = ours(x)
    kept = first.clone()
    ours(draw())
    assert torch.equal(first, kept), "a result is the caller's own"


def test_a_graph_follows_what_is_changed_in_place_replaced_or_moved(pair):
    original, ours, _ = pair
    check(original, ours)
    for each in (original, ours):
        torch.manual_seed(1)
        each.blocks[0][0].weight.normal_()
    check(original, ours)
    for each in (original, ours):
        torch.manual_seed(2)
        each.blocks[1][0].weight = torch.nn.Parameter(torch.randn(64, 64, device="cuda"))
        each.blocks[2][0] = torch.nn.Linear(64, 64).cuda()
    check(original, ours)
    for each in (original, ours):
        each.cpu().cuda()
    check(original, ours)


def test_a_graph_is_captured_once_and_goes_with_its_module(pair):
    _, ours, imported = pair
    ours(draw())
    [call] = imported.captured_calls.values()
    ours(draw())
    assert [*imported.captured_calls.values()] == [call]
    other = imported.ModelNew().cuda()
    other(draw())
    assert len(imported.captured_calls) == 2
    del other
    gc.collect()
    assert [*imported.captured_calls.values()] == [call]


def test_within_a_callers_own_graph_the_kernels_themselves_are_captured(pair):
    original, ours, _ = pair
    x = draw()
    ours(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ours(x)
    ours.load_state_dict(original.state_dict())
    x.copy_(draw())
    graph.replay()
    torch.testing.assert_close(result, original(x))


def test_the_search_keeps_a_graph_where_that_is_the_fastest(tmp_path):
    """Eight blocks wait for launches. torch.compile waits less, so either may win."""
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    options = SearchOptions(policy="teacher", budget_s=90.0, with_slower=True)
    result = optimize_target(str(path), options, out=tmp_path / "out")
    lines = record.read(tmp_path / "out" / "records.jsonl")
    wholes = [line for line in lines if line["record"] == "whole"]
    assert result["form"] != "original", wholes
    text = (tmp_path / "out" / "optimized.py").read_text()
    assert ("replay(self" in text) == bool(result["graph"])
    if result["graph"]:
        assert result["graph"]["replayed_ms"] < result["graph"]["launched_ms"]
        assert result["speedups"]["over_compile"][0] >= 1.0


def test_a_module_from_python_is_replayed_too(tmp_path):
    path = tmp_path / "original.py"
    path.write_text(MODEL)
    original = import_file(path).Model().cuda().eval()  # calls that change buffers are not timed
    with torch.no_grad():
        ours = optimize(copy.deepcopy(original), (draw(),), policy="teacher", budget_s=90.0)
        check(original, ours)
        ours.load_state_dict(original.state_dict())
        check(original, ours)
    assert (ours in captured_calls) == bool(ours.optimization["graph"])
