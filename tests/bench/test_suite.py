"""A suite through the real product on CPU: records, resumption, cases that break their process."""

import math

import pytest

from kernelwright.bench.suite import Run, describe, kernelbench_cases, module_cases, run_suite
from kernelwright.bench.worker import Worker
from kernelwright.core import record
from kernelwright.core.errors import UsageError

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2.0 + 1.0


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return []
"""


def run(tmp_path, **changes):
    values = {
        "suite": "kernelbench",
        "level": "X",
        "results": tmp_path / "results.jsonl",
        "work": tmp_path / "work",
        "options": {"device": "cpu", "mode": "hybrid", "precision": "strict", "budget_s": 60.0},
        "jobs": 1,
        "deadline_s": math.inf,
        "timeout_s": 200.0,
    }
    return Run(**values | changes)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "level"
    made.mkdir()
    (made / "2_good.py").write_text(TASK)
    (made / "10_broken.py").write_text("def get_inputs(:\n")
    (made / "notes.py").write_text("")
    return made


def test_tasks_are_found_by_number_and_chosen(folder):
    assert [case.id for case in kernelbench_cases(folder)] == [2, 10]
    assert [case.name for case in kernelbench_cases(folder, [10])] == ["10_broken"]
    with pytest.raises(UsageError, match="NUMBER_NAME"):
        kernelbench_cases(folder, [3])


def test_factories_are_named_by_their_function():
    assert [case.name for case in module_cases(["a.b:one", "c:two"])] == ["one", "two"]


def test_every_case_leaves_one_record_and_is_not_run_again(folder, tmp_path):
    said = []
    run_suite(run(tmp_path), kernelbench_cases(folder), said.append)
    lines = list(record.read(tmp_path / "results.jsonl"))
    assert [line["record"] for line in lines] == ["run", "benchmark_case", "benchmark_case"]
    good, broken = sorted(lines[1:], key=lambda line: line["id"])
    assert good["correct"]
    assert good["has_triton"]
    assert good["optimized"] is None, "no time without a GPU"
    assert (broken["correct"], broken["code"]) == (False, "usage")
    assert len(said) == 2
    run_suite(run(tmp_path), kernelbench_cases(folder), said.append)
    assert list(record.read(tmp_path / "results.jsonl")) == lines
    assert (tmp_path / "work" / "2_good" / "log.txt").exists()


def test_after_the_deadline_no_case_begins(folder, tmp_path):
    run_suite(run(tmp_path, deadline_s=0.0), kernelbench_cases(folder), print)
    assert [line["record"] for line in record.read(tmp_path / "results.jsonl")] == ["run"]


def test_a_case_that_ends_the_process_is_ours_and_the_next_one_runs(folder, tmp_path):
    killer = folder / "1_killer.py"
    killer.write_text("import os\nos._exit(3)\n")
    options = run(tmp_path).options
    with Worker(tmp_path / "worker.log") as worker:
        died = worker.run(str(killer), tmp_path / "a", options, 200.0)
        assert died["code"] == "infra"
        assert "died" in died["message"]
        assert worker.run(str(folder / "2_good.py"), tmp_path / "b", options, 200.0)["correct"]


def test_a_case_that_takes_too_long_is_ended(folder, tmp_path):
    slow = folder / "3_slow.py"
    slow.write_text("import time\ntime.sleep(1e4)\n")
    with Worker(tmp_path / "worker.log") as worker:
        found = worker.run(str(slow), tmp_path / "a", run(tmp_path).options, 6.0)
    assert found["code"] == "infra"
    assert "no end within 6 s" in found["message"]


def test_a_case_in_words():
    timing = {"median_ms": 2.0}
    line = {"correct": True, "code": "ok", "eager": timing, "optimized": {"median_ms": 1.0}}
    assert describe(line) == "1.000 ms, 2.00x eager"
    assert describe({"correct": False, "code": "usage", "message": "why"}) == "usage: why"
