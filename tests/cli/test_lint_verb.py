"""`kernelwright lint`: exit codes, folders, isolation, records."""

import json

import pytest
from record_kinds import faults_in

from kernelwright.core import record

FLAT = """\
import torch


def get_inputs():
    return [torch.{draw}(32, 16)]


def fused_operator(x):
    y = torch.relu(x)
    return [y]
"""


@pytest.fixture
def lint(run):
    return lambda *argv: run("lint", *argv, "--device", "cpu", "--workers", 1)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "1_good.py").write_text(FLAT.format(draw="randn"))
    (tmp_path / "10_bad.py").write_text(FLAT.format(draw="rand"))
    return tmp_path


@pytest.mark.slow
def test_a_clean_task_exits_with_0_and_one_with_findings_with_1(lint, folder):
    clean = lint(folder / "1_good.py")
    assert (clean.code, "clean" in clean.out) == (0, True)
    bad = lint(folder / "10_bad.py")
    assert bad.code == 1
    assert "identity: input 0 in place of output 0" in bad.out
    assert "remedy" in bad.out


@pytest.mark.slow
def test_a_task_that_crashes_costs_itself_only(lint, folder):
    (folder / "2_crash.py").write_text("import os\nos._exit(3)\n")
    (folder / "3_broken.py").write_text("x = 1\n")
    done = lint(folder, "--json")
    assert done.code == 2
    lines = json.loads(done.out)
    assert [line["task"].rpartition("/")[2] for line in lines] == [
        "1_good.py", "2_crash.py", "3_broken.py", "10_bad.py",
    ]  # fmt: skip
    assert [line.get("kind") for line in lines] == [None, "crash", "usage", None]
    assert lines[3]["findings"][0]["id"] == "identity"


def test_a_task_that_cannot_be_used_says_what_to_do(lint, tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\n")
    done = lint(tmp_path / "broken.py")
    assert done.code == 2
    assert "remedy" in done.out


@pytest.mark.slow
def test_records_are_kept_and_not_made_twice(lint, folder, tmp_path):
    out = tmp_path / "records.jsonl"
    lint(folder / "10_bad.py", "--out", out)
    lint(folder, "--out", out)
    lint(folder, "--out", out)
    lines = list(record.read(out))
    assert faults_in(out) == set()
    # A run of more tasks has a head of its own; the same command adds nothing.
    assert [line["record"] for line in lines] == ["run", "lint", "run", "lint"]
    assert [line["cases"] for line in lines if line["record"] == "run"] == [1, 2]
