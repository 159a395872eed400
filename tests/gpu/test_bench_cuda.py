"""A benchmark case on a GPU: three contenders timed in turn, a baseline that cannot run."""

from pathlib import Path

import pytest
import torch

from kernelwright.bench import side_by_side
from kernelwright.bench.case import run_case

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(torch.tanh(x) * 2.0 + 1.0) * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return []
"""


@pytest.fixture(autouse=True)
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture
def job(tmp_path):
    task = tmp_path / "1_task.py"
    task.write_text(TASK)
    options = {"device": "cuda", "mode": "hybrid", "precision": "strict", "budget_s": 240.0}
    options["policy"] = "teacher"
    return {"spec": str(task), "candidate": None, "folder": str(tmp_path / "case"),
            "options": options, "max_autotune": False, "room": str(tmp_path),
            "alone": False, "timeout_s": 300.0}  # fmt: skip


def test_a_case_is_timed_against_both_baselines(job):
    found = run_case(job)
    assert found["correct"], found["message"]
    assert found["speedup_intervals"]["eager"][0] > 1.0
    assert set(found["speedup_intervals"]) == {"eager", "compiled"}
    assert found["floor_ms"] < found["optimized"]["median_ms"]
    assert set(found["tf32"]) == {"matmul", "cudnn"}
    assert found["baselines_failed"] == {}


def test_where_nothing_is_won_the_baselines_are_timed(job):
    path = Path(job["spec"])
    path.write_text(
        TASK.replace(
            "torch.relu(torch.tanh(x) * 2.0 + 1.0) * torch.sigmoid(x)",
            "torch.sort(x).values",
        )
    )
    found = run_case(job)
    assert not found["correct"]
    assert found["optimized"] is None
    assert found["eager"]
    assert found["compiled"]
    assert found["speedup_intervals"] == {}


def test_a_right_kernel_that_is_not_kept_is_timed(job):
    path = Path(job["spec"])
    path.write_text(TASK.replace("torch.relu(torch.tanh(x) * 2.0 + 1.0) * torch.sigmoid(x)", "-x"))
    found = run_case(job)
    assert found["correct"], found["message"]
    assert found["optimized"]
    assert (Path(job["folder"]) / "slower.py").exists() is not found["kept"]


def test_a_case_may_have_the_gpu_alone(job):
    assert run_case(job | {"alone": True})["correct"]


def test_a_candidate_of_a_strangers_has_the_judges_times(job, tmp_path):
    run_case(job)
    found = run_case(job | {"candidate": str(tmp_path / "case" / "optimized.py")})
    assert found["correct"], found["message"]
    assert found["eager"]
    assert found["compiled"] is None


def test_a_baseline_that_cannot_run_is_named_and_the_others_are_timed(job, monkeypatch):
    def broken(module, mode):
        def call(*_):
            raise RuntimeError(f"no backend for {mode}")

        return call

    monkeypatch.setattr(side_by_side.torch, "compile", broken)
    found = run_case(job)
    assert found["baselines_failed"] == {"compiled": "RuntimeError: no backend for default"}
    assert set(found["speedup_intervals"]) == {"eager"}
    assert found["compiled"] is None
