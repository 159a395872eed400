"""`optimized.py` as a CUDA graph: where it is tried, and its text. What it computes on a GPU is in
tests/gpu/test_graphed_cuda.py."""

from dataclasses import replace

import pytest
import torch
from test_settle import verdict

from kernelwright.core.verdict import Timing
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import lower
from kernelwright.search.contest.graphed import can_be_graphed, waits_for_launches
from kernelwright.search.module.emit import model_file
from kernelwright.search.module.guards import LoweredModule
from kernelwright.search.module.importing import import_file
from kernelwright.verify.static import findings


def timed(candidate_ms, graph_ms=None):
    """Accepted with these times against 2 ms."""
    found = verdict(candidate_ms)
    if graph_ms is None:
        return found
    graph = Timing(median_ms=graph_ms, low_ms=graph_ms, high_ms=graph_ms, num_samples=9)
    return replace(found, times={**found.times, "candidate_graph": graph})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (timed(3.0, 0.5), True),
        (timed(3.0, 2.9), False),
        (timed(3.0), False),
        (verdict(None), False),
    ],
)
def test_what_is_faster_as_a_graph_waits_for_launches(found, expected):
    assert waits_for_launches(found) is expected


MODEL = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6)

    def forward(self, given):
        x = self.norm(self.linear(given["x"]))
        return torch.relu(x), {"sum": x + given["y"]}
"""
"""A batch norm in training, two results, an input with parts."""


def given():
    return {"x": torch.randn(8, 4), "y": torch.randn(8, 6)}


def test_the_text_of_a_graph_is_a_candidate_and_computes_what_the_original_does(tmp_path):
    path = tmp_path / "original.py"
    path.write_text(MODEL)
    original = import_file(path).Model()
    lowered = lower(original, (given(),))
    composed = compose(lowered.program, []).source
    traced = LoweredModule(module=original, lowered=lowered, is_for_one_mode=True)
    text = model_file(MODEL, traced, composed, is_graphed=True)
    refused = {each.rule for each in findings(text, "hybrid", "ModelNew", hints=False)}
    assert refused == {"kernel"}, "there is none in it, and nothing else is wrong"
    path = tmp_path / "optimized.py"
    path.write_text(text)
    ours = import_file(path).ModelNew()
    ours.load_state_dict(original.state_dict())
    with torch.no_grad():
        for _ in range(2):
            x = given()
            one, two = ours(x), original(x)
            assert torch.equal(one[0], two[0])
            assert torch.equal(one[1]["sum"], two[1]["sum"])
    assert torch.equal(ours.norm.running_mean, original.norm.running_mean)
    assert ours.norm.num_batches_tracked == 2
    x = given()
    with torch.no_grad():  # the kernels compute train mode
        assert torch.equal(ours.eval()(x)[0], original.eval()(x)[0])


class Attribute(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(3)

    def forward(self, x):
        self.total = self.total + x
        return self.total * 2


def test_no_graph_of_what_changes_beside_inputs_and_buffers():
    x = torch.ones(3)
    assert can_be_graphed(lower(torch.nn.BatchNorm1d(3), (torch.ones(2, 3),)))
    assert not can_be_graphed(lower(Attribute(), (x,)))
    assert not can_be_graphed(lower(torch.nn.Dropout(0.5), (x,)))
    assert can_be_graphed(lower(torch.nn.Dropout(0.5).eval(), (torch.ones(3, 3),)))
