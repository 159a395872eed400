"""What a task takes of a GPU's memory is told from shapes alone."""

import pytest

from kernelwright.bench.footprint import FIXED_BYTES, JUDGED_FACTOR, PARTS_FACTOR, footprint

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


def test_inputs_parameters_and_outputs_count_several_times(measured):
    assert measured("return self.linear(x)") == JUDGED_FACTOR * (X + W + Y)


def test_many_values_on_the_way_count_once_each_and_views_not_at_all(measured):
    chain = "y = self.linear(x); y = y.view(-1).view_as(y)\n        "
    chain += "for _ in range(9):\n            y = y.tanh()\n        return y.sum()"
    assert measured(chain) == pytest.approx(PARTS_FACTOR * (X + W + 10 * Y), rel=1e-6)


def test_a_call_that_needs_values_counts_what_goes_in(measured):
    assert measured("return x[: int(x.max().item())]") == JUDGED_FACTOR * (X + W)


def test_what_cannot_be_loaded_takes_the_fixed_part(tmp_path):
    assert footprint(str(tmp_path / "missing.py")) == FIXED_BYTES
