"""`kernelwright data collect`: the table, the records, wrong options."""

import json
import os

import pytest
from record_kinds import faults_in

from kernelwright.cli.data.collect import parse_levels
from kernelwright.core import record
from kernelwright.core.errors import UsageError

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x).exp()

def get_inputs():
    return [torch.randn(5, 7)]
"""


@pytest.mark.slow
def test_a_file_becomes_programs_a_table_and_a_summary(run, tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    out, summary = tmp_path / "programs.jsonl", tmp_path / "summary.jsonl"
    options = ("--out", out, "--levels", "1,2", "--workers", "1", "--summary", summary)
    done = run("data", "collect", tmp_path / "task.py", *options)
    assert done.code == 0
    counts = [line.split()[:2] for line in done.out.splitlines()[:2]]
    assert counts == [["1", "modules"], ["1", "lowered"]]
    programs = [line for line in record.read(out) if line["record"] == "program"]
    assert sorted(line["level"] for line in programs) == [1, 1, 2]
    (found,) = record.read(summary)
    assert (found["record"], found["programs"], found["target"]) == ("collect", 3, "task.py")
    assert faults_in(out) | faults_in(summary) == set()
    assert str(tmp_path) not in out.read_text() + json.dumps({**found, "environment": None})


def test_levels_that_no_program_has_are_refused_before_anything_is_written(
    run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = run("data", "collect", "typer", "--out", "x.jsonl", "--levels", "1,9")
    assert (done.code, os.listdir(tmp_path)) == (2, [])
    assert "from 1 to 5" in done.err


def test_levels_are_sorted_and_checked():
    assert parse_levels(" 5,1,,2,1", 5) == (1, 2, 5)
    assert parse_levels("", 5) == ()
    for wrong in ("0", "six", "-1", "1.5"):
        with pytest.raises(UsageError, match="remedy"):
            parse_levels(wrong, 5)
