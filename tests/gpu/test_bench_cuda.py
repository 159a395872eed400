"""A benchmark case on a GPU: three contenders timed in turn, a baseline that cannot run."""

from pathlib import Path

import pytest
import torch

from kernelwright.bench.case import run_case
from kernelwright.bench.side_by_side import side_by_side
from kernelwright.verify.tasks.load import load_task

FORMULA = "torch.relu(torch.tanh(x) * 2.0 + 1.0) * torch.sigmoid(x)"
TASK = f"""
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {FORMULA}


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return []
"""

RELU = """
import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0.0), i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y


def get_init_inputs():
    return []
"""


@pytest.fixture
def job(tmp_path):
    task = tmp_path / "1_task.py"
    task.write_text(TASK)
    options = {"device": "cuda", "mode": "hybrid", "precision": "strict", "budget_s": 60.0}
    options["policy"] = "teacher"
    return {"spec": str(task), "candidate": None, "folder": str(tmp_path / "case"),
            "options": options, "max_autotune": False, "room": str(tmp_path),
            "alone": False, "timeout_s": 300.0}  # fmt: skip


def test_a_case_that_has_the_gpu_alone_is_timed_against_both_baselines(job):
    # Beside other tests, the search can end before a kernel has its turn at the GPU.
    found = run_case(job | {"alone": True})
    assert found["correct"], found["message"]
    assert found["speedup_intervals"]["eager"][0] > 1.0
    assert set(found["speedup_intervals"]) == {"eager", "compiled"}
    assert found["floor_ms"] < found["optimized"]["median_ms"]
    assert set(found["tf32"]) == {"matmul", "cudnn"}
    assert found["baselines_failed"] == {}


def test_where_nothing_is_won_the_baselines_are_timed(job):
    path = Path(job["spec"])
    path.write_text(TASK.replace(FORMULA, "torch.sort(x).values"))
    found = run_case(job)
    assert not found["correct"]
    assert not found["kept"]
    assert found["form"] in ("compiled", "original")
    assert found["eager"]
    assert found["compiled"]
    # What is timed as "optimized" is torch.compile, where the user gets that.
    assert (found["optimized"] is not None) == (found["form"] == "compiled")


def test_a_right_kernel_that_is_not_kept_is_timed(job):
    path = Path(job["spec"])
    path.write_text(TASK.replace(FORMULA, "-x"))
    found = run_case(job)
    assert found["correct"], found["message"]
    assert found["optimized"]
    assert (Path(job["folder"]) / "slower.py").exists() is not found["kept"]


@pytest.fixture
def candidate(job, tmp_path):
    """A right answer to the job, whose task becomes a plain relu."""
    Path(job["spec"]).write_text(TASK.replace(FORMULA, "torch.relu(x)"))
    path = tmp_path / "candidate.py"
    path.write_text(RELU)
    return path


def test_a_candidate_of_a_strangers_has_the_judges_times(job, candidate):
    found = run_case(job | {"candidate": str(candidate)})
    assert found["correct"], found["message"]
    assert found["eager"]
    assert found["compiled"] is None


def test_a_baseline_that_cannot_run_is_named_and_the_others_are_timed(job, candidate, monkeypatch):
    def broken(*_, **options):
        def call(*_):
            raise RuntimeError(f"no backend for {options.get('mode')}")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    task = load_task(job["spec"], torch.device("cuda"))
    timed = side_by_side(task, candidate, precision="strict")
    assert timed.failed == {"compiled": "RuntimeError: no backend for default"}
    assert set(timed.speedup_intervals) == {"eager"}
    assert set(timed.times) == {"eager", "optimized"}
