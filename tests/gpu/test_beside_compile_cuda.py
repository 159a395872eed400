"""torch.compile beside the result of a search, on a GPU."""

import pytest
import torch

from kernelwright.search.optimize import optimize_target


@pytest.fixture(autouse=True)
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


def test_a_search_times_torch_compile_beside_its_result(tmp_path):
    result = optimize_target(
        "examples/softmax_attention_scores.py", out=tmp_path, budget_s=120.0, policy="teacher"
    )
    assert result["torch_compile"]["timed"], result["torch_compile"]["message"]
    assert set(result["times"]) == {"eager", "compiled", "optimized"}
    for baseline, name in (("eager", "over_eager"), ("compiled", "over_compile")):
        ratio, low, high = result["speedups"][name]
        times = result["times"]
        assert low <= ratio <= high
        assert ratio == times[baseline]["median_ms"] / times["optimized"]["median_ms"]


def test_a_search_without_time_left_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.search.beside_compile.LEAST_S", 1e6)
    result = optimize_target(
        "examples/softmax_attention_scores.py", out=tmp_path, budget_s=60.0, policy="teacher"
    )
    assert not result["torch_compile"]["timed"]
    assert "of the budget were left" in result["torch_compile"]["message"]
    assert set(result["speedups"]) == {"over_eager"}
