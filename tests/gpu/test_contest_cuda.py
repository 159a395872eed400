"""torch.compile beside the result of a search, on a GPU."""

import pytest
import torch

from kernelwright.search.optimize import optimize_target

LARGE = """
import torch
import torch.nn.functional as F

def get_inputs():
    return [torch.randn(8192, 4096), torch.randn(4096)]

def fused_operator(x0, x1):
    return [F.softmax(x0 * 0.125 + x1, -1)]
"""
"""Large enough that a kernel wins: launches take no part of the time."""


@pytest.fixture(autouse=True)
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "large.py"
    path.write_text(LARGE)
    return str(path)


def test_a_search_times_torch_compile_beside_its_result(tmp_path, program):
    result = optimize_target(program, out=tmp_path / "out", budget_s=240.0, policy="teacher")
    assert result["torch_compile"]["timed"], result["torch_compile"]["message"]
    assert set(result["times"]) == {"eager", "compiled", "optimized"}
    for baseline, name in (("eager", "over_eager"), ("compiled", "over_compile")):
        ratio, low, high = result["speedups"][name]
        times = result["times"]
        assert low <= ratio <= high
        assert ratio == times[baseline]["median_ms"] / times["optimized"]["median_ms"]


def test_a_search_without_time_left_says_so(tmp_path, program, monkeypatch):
    monkeypatch.setattr("kernelwright.search.beside_compile.LEAST_S", 1e6)
    result = optimize_target(program, out=tmp_path / "out", budget_s=240.0, policy="teacher")
    assert not result["torch_compile"]["timed"]
    assert "of the budget were left" in result["torch_compile"]["message"]
    assert set(result["speedups"]) == {"over_eager"}
