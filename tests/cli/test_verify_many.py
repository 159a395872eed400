"""`kernelwright verify-many` as a whole, on sources that are refused without running them."""

import json

import pytest
from cli_runs import NO_KERNEL, TASK

from kernelwright.core import record


@pytest.fixture
def jobs(tmp_path):
    lines = [{"id": str(n), "reference": TASK, "candidate": f"{NO_KERNEL}# {n}\n"} for n in (1, 2)]
    record.append(tmp_path / "jobs.jsonl", lines)
    return tmp_path / "jobs.jsonl"


@pytest.fixture
def verify_many(run):
    return lambda *argv: run("verify-many", *argv, "--device", "cpu", "--workers", 1)


@pytest.mark.slow
def test_a_run_is_judged_once_and_the_same_command_resumes_it(verify_many, jobs, tmp_path):
    done = verify_many(jobs, "--out", tmp_path / "run", "--json")
    assert done.code == 0
    summary = json.loads(done.out)
    assert (summary["codes"], summary["judged_now"]) == ({"no_kernel": 2}, 2)
    done = verify_many(jobs, "--out", tmp_path / "run")
    assert done.code == 0
    assert "no_kernel" in done.out
    assert "0 judged now" in done.out
    records = list(record.read(tmp_path / "run" / "records.jsonl"))
    assert [r["record"] for r in records] == ["run", "verdict", "verdict", "summary", "summary"]


@pytest.mark.slow
def test_another_recipe_is_refused_and_nothing_is_written(verify_many, jobs, tmp_path):
    verify_many(jobs, "--out", tmp_path / "run")
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    refused = verify_many(jobs, "--out", tmp_path / "run", "--mode", "pure")
    assert refused.code == 2
    assert 'mode = "hybrid"' in refused.err
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_reference_that_cannot_be_used_is_said_in_the_exit_code(verify_many, tmp_path):
    line = {"id": "a", "reference": "import torch\n", "candidate": NO_KERNEL}
    record.append(tmp_path / "jobs.jsonl", [line])
    done = verify_many(tmp_path / "jobs.jsonl", "--out", tmp_path / "run")
    assert done.code == 2
    assert "the reference cannot be used" in done.out
