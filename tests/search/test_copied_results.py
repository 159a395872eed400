"""A written file returns copies where the original returns copies."""

import pytest
import torch

from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.lowering.lower import lower
from kernelwright.search.module.emit import model_file
from kernelwright.search.module.guards import LoweredModule
from kernelwright.search.module.importing import import_file

MODEL = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        turned = x.t().contiguous(), y.t().contiguous()
        return x.clone(), y, y.clone(), y.view(-1), *turned, torch.polar(x, x)


def get_inputs():
    return [torch.ones(2, 3)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("is_graphed", [False, True])
def test_results_share_memory_as_those_of_the_original_do(tmp_path, is_graphed):
    path = tmp_path / "original.py"
    path.write_text(MODEL)
    original, x = import_file(path).Model(), torch.ones(2, 3)
    lowered = lower(original, (x,))
    text = model_file(
        MODEL,
        LoweredModule(module=original, lowered=lowered, is_for_one_mode=False),
        compose(lowered.program, []).source,
        is_graphed=is_graphed,
    )
    path = tmp_path / "optimized.py"
    path.write_text(text)
    with torch.no_grad():
        results, wanted = import_file(path).ModelNew()(x), original(x)
    places = [tensor.untyped_storage().data_ptr() for tensor in (x, *results)]
    assert [places.index(place) for place in places[:-1]] == [0, 1, 2, 3, 2, 5, 6]
    assert [result.stride() for result in results] == [tensor.stride() for tensor in wanted]
    torch.testing.assert_close(results, wanted)


COUNTER = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        before = self.total.clone()
        self.total.add_(x)
        return before


def get_inputs():
    return [torch.ones(3)]


def get_init_inputs():
    return []
"""


def test_a_written_file_returns_a_value_from_before_it_changes(tmp_path):
    path = tmp_path / "original.py"
    path.write_text(COUNTER)
    original, x = import_file(path).Model(), torch.ones(3)
    lowered = lower(original, (x,))
    composed = compose(lowered.program, []).source
    traced = LoweredModule(module=original, lowered=lowered, is_for_one_mode=False)
    path = tmp_path / "optimized.py"
    path.write_text(model_file(COUNTER, traced, composed))
    ours = import_file(path).ModelNew()
    with torch.no_grad():
        for number in range(3):
            assert ours(x).tolist() == [number] * 3
