"""What a task takes of a GPU's memory is told from shapes alone."""

import pytest
import torch

from kernelwright.bench.footprint import CALL_FACTOR, FIXED_BYTES, KEPT_FACTOR, _Alive, footprint
from kernelwright.programs.draws.families import FAMILIES, apply

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 2048, bias=False)

    def forward(self, x):
        {}


def get_inputs():
    return [torch.randn(1 << 20, 1024)]
"""
X, W, Y = 4 << 30, 8 << 20, 8 << 30


@pytest.fixture
def measured(tmp_path):
    def measure(body):
        path = tmp_path / "task.py"
        path.write_text(TASK.format(body))
        return footprint(str(path)) - FIXED_BYTES

    return measure


def needed(outside, alive):
    return int(KEPT_FACTOR * outside + CALL_FACTOR * alive)


def test_inputs_parameters_and_outputs_count_several_times(measured):
    whole = X + W + Y
    assert measured("return self.linear(x)") == needed(whole, whole)


def test_values_on_the_way_count_while_they_live_and_views_not_at_all(measured):
    chain = "y = self.linear(x); y = y.view(-1).view_as(y)\n        "
    chain += "for _ in range(9):\n            y = y.tanh()\n        return y.sum()"
    assert measured(chain) == pytest.approx(needed(X + W, X + W + 2 * Y), rel=1e-6)


def test_values_that_are_kept_count_together(measured):
    kept = "y = self.linear(x); z = y.tanh(); return (y + z.exp() + z).sum()"
    assert measured(kept) == pytest.approx(needed(X + W, X + W + 4 * Y), rel=1e-6)


def test_a_call_that_needs_values_counts_what_goes_in(measured):
    assert measured("return x[: int(x.max().item())]") == needed(X + W, 2 * (X + W))


def test_what_cannot_be_loaded_takes_the_fixed_part(tmp_path):
    assert footprint(str(tmp_path / "missing.py")) == FIXED_BYTES


@pytest.mark.parametrize("family", FAMILIES)
def test_changing_inputs_takes_little_beside_what_judging_them_takes(family):
    drawn = torch.randn(1 << 16)
    alive = _Alive()
    alive.add(drawn)
    with alive:
        apply(family, [drawn], 0)
    assert alive.peak_bytes <= 4.5 * drawn.nbytes
