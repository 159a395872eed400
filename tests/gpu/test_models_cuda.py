"""`eval models` on a GPU: a small model with times, memory and the share of our kernels."""

import math

import pytest

from kernelwright.bench.models.run import WHOLE, ModelsPlan, run_models
from kernelwright.core import record
from kernelwright.report.models import write_models


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_small_model_is_timed_beside_eager_and_torch_compile(tmp_path, phase):
    pytest.importorskip("transformers", reason="transformers is not installed")
    plan = ModelsPlan(
        out=tmp_path,
        models=["transformers/gpt2"],
        dtypes=["bfloat16"],
        phases=[phase],
        by=[WHOLE],
        is_small=True,
        device="cuda",
        budget_s=30.0,
        timeout_s=600.0,
        deadline_s=math.inf,
    )
    run_models(plan, print)
    *_, case = record.read(plan.records)
    sides = {"eager", "compiled", "optimized"}
    assert "failed" not in case, case["failed"]
    assert case["correct"] == {"compiled": True, "optimized": True}, case["mismatch"]
    assert all(case[side]["median_ms"] > 0.0 for side in sides)
    assert case["speedup_intervals"].keys() == {"eager", "compiled"}
    assert case["peak_bytes"].keys() == sides
    assert 0.0 <= case["share"] <= 1.0
    has_kernels = any(graph["kernels"] for graph in case["graphs"])
    assert (case["share"] > 0.0) == has_kernels
    write_models(tmp_path)
