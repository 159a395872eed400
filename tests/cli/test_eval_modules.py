"""`kernelwright eval modules` over a run that has its records: what it prints."""

import json

import pytest
from verdicts import timing_fields as timing

from kernelwright.bench.suite import SuiteRun
from kernelwright.core import record

OPTIONS = {"device": "cpu", "precision": "strict", "mode": "hybrid", "budget_s": 300.0}


CASE = {
    "record": "benchmark_case",
    "level": "real",
    "id": 1,
    "sample": 0,
    "name": "loads",
    "correct": True,
    "kept": True,
    "has_triton": True,
    "form": "compiled_kernels",
    "code": "ok",
    "message": "",
    "eager": timing(3.0),
    "compiled": timing(2.0),
    "optimized": timing(1.0),
    "speedup_intervals": {"eager": [2.9, 3.1], "compiled": [1.9, 2.1]},
}


@pytest.fixture
def folder(tmp_path):
    """A run that is done."""
    run = SuiteRun(
        suite="modules",
        policy="teacher",
        out=tmp_path,
        options=OPTIONS | {"policy": "teacher"},
        jobs=1,
        deadline_s=0.0,
        timeout_s=1.0,
    )
    record.append(run.records, [run.head() | {"environment": {}}, CASE])
    return tmp_path


def said_of(run, folder, *argv):
    options = ("--out", folder, "--device", "cpu", "--policy", "teacher", *argv)
    done = run("eval", "modules", "json:loads", *options)
    assert done.code == 0
    return done.out


def test_each_module_leads_with_the_better_of_eager_and_torch_compile(run, folder):
    printed = said_of(run, folder)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    figures = " ".join(printed.split("real/loads")[1].split())
    assert figures.startswith("2.00x 2.00x 3.00x correct:")
    assert "1.90 to 2.10 1.90 to 2.10 2.90 to 3.10" in figures


def test_json_records_begin_with_the_delivered_ratios(run, folder):
    head, case, _ = json.loads(said_of(run, folder, "--json"))
    assert head["record"] == "run"
    assert next(iter(case)) == "over"
    assert case["over"] == {
        "better": [2.0, 1.9, 2.1],
        "compiled": [2.0, 1.9, 2.1],
        "eager": [3.0, 2.9, 3.1],
    }
