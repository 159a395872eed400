"""`kernelwright data collect`: the table, the records, wrong options."""

import json
import os

import pytest
from cli_runs import exit_code
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


@pytest.fixture
def collect(capsys):
    def command(*argv):
        return exit_code(["data", "collect", *map(str, argv)]), capsys.readouterr()

    return command


@pytest.mark.slow
def test_a_file_becomes_programs_a_table_and_a_summary(collect, tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    out, summary = tmp_path / "programs.jsonl", tmp_path / "summary.jsonl"
    code, streams = collect(
        tmp_path / "task.py", "--out", out, "--levels", "1,2", "--workers", "1",
        "--summary", summary,
    )  # fmt: skip
    assert code == 0
    assert [line.split()[:2] for line in streams.out.splitlines()[:2]] == [
        ["1", "modules"], ["1", "lowered"],
    ]  # fmt: skip
    programs = [line for line in record.read(out) if line["record"] == "program"]
    assert sorted(line["level"] for line in programs) == [1, 1, 2]
    (found,) = record.read(summary)
    assert (found["record"], found["programs"], found["target"]) == ("collect", 3, "task.py")
    assert faults_in(out) | faults_in(summary) == set()
    assert str(tmp_path) not in out.read_text() + json.dumps({**found, "environment": None})


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["no/such/folder", "--out", "x.jsonl"], "there is no such file or folder"),
        (["typer", "--out", "x.jsonl", "--levels", "1,9"], "from 1 to 5"),
    ],
)
def test_wrong_options_exit_with_2_and_write_nothing(collect, tmp_path, monkeypatch, argv, said):
    monkeypatch.chdir(tmp_path)
    code, streams = collect(*argv)
    assert (code, os.listdir(tmp_path)) == (2, [])
    assert said in streams.err


def test_levels_are_sorted_and_checked():
    assert parse_levels(" 5,1,,2,1", 5) == (1, 2, 5)
    assert parse_levels("", 5) == ()
    for wrong in ("0", "six", "-1", "1.5"):
        with pytest.raises(UsageError, match="remedy"):
            parse_levels(wrong, 5)
