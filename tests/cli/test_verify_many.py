"""`kernelwright verify-many` as a whole, on sources that are refused without running them."""

import json

import pytest
from cli_runs import exit_code

from kernelwright.core import record

TASK = (
    "import torch\n\n\ndef get_inputs():\n    return [torch.randn(4, 8)]\n\n\n"
    "def fused_operator(x0):\n    t0 = torch.relu(x0)\n    return [t0]\n"
)
NO_KERNEL = "def fused_operator(x0):\n    return [x0]\n"


@pytest.fixture
def jobs(tmp_path):
    lines = [{"id": str(n), "reference": TASK, "candidate": f"{NO_KERNEL}# {n}\n"} for n in (1, 2)]
    record.append(tmp_path / "jobs.jsonl", lines)
    return tmp_path / "jobs.jsonl"


def verify_many(capsys, *argv):
    code = exit_code(["verify-many", *map(str, argv), "--device", "cpu", "--workers", "1"])
    return code, capsys.readouterr()


@pytest.mark.slow
def test_a_run_is_judged_once_and_the_same_command_resumes_it(jobs, tmp_path, capsys):
    code, streams = verify_many(capsys, jobs, "--out", tmp_path / "run", "--json")
    assert code == 0
    summary = json.loads(streams.out)
    assert (summary["codes"], summary["judged_now"]) == ({"no_kernel": 2}, 2)
    code, streams = verify_many(capsys, jobs, "--out", tmp_path / "run")
    assert code == 0
    assert "no_kernel" in streams.out
    assert "0 judged now" in streams.out
    records = list(record.read(tmp_path / "run" / "records.jsonl"))
    assert [r["record"] for r in records] == ["run", "verdict", "verdict", "summary", "summary"]


@pytest.mark.slow
def test_another_recipe_is_refused_and_nothing_is_written(jobs, tmp_path, capsys):
    verify_many(capsys, jobs, "--out", tmp_path / "run")
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    code, streams = verify_many(capsys, jobs, "--out", tmp_path / "run", "--mode", "pure")
    assert code == 2
    assert 'mode = "hybrid"' in streams.err
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_reference_that_cannot_be_used_is_said_in_the_exit_code(tmp_path, capsys):
    line = {"id": "a", "reference": "import torch\n", "candidate": NO_KERNEL}
    record.append(tmp_path / "jobs.jsonl", [line])
    code, streams = verify_many(capsys, tmp_path / "jobs.jsonl", "--out", tmp_path / "run")
    assert code == 2
    assert "the reference cannot be used" in streams.out


def test_jobs_that_cannot_be_read_leave_no_folder(tmp_path, capsys):
    code, streams = verify_many(capsys, tmp_path / "gone.jsonl", "--out", tmp_path / "run")
    assert code == 2
    assert "no such file" in streams.err
    assert not (tmp_path / "run").exists()
