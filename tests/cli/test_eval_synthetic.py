"""`kernelwright eval synthetic` from programs to the page, in the interpreter."""

import json

import pytest
from cli_runs import RELU, write_programs

from kernelwright.cli.suites.synthetic import _show, parse_levels
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.report.synthetic.page import Examination


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    total = "    t0 = torch.exp(x0)\n    t1 = torch.sum(t0, dim=1)\n    return [t1]\n"
    return write_programs(tmp_path_factory.mktemp("programs") / "drawn.jsonl", RELU, total)


@pytest.fixture
def evaluate(run, programs):
    fixed = ("--policy", "teacher", "--programs", programs, "--device", "cpu", "--workers", 1)
    return lambda folder, *argv: run("eval", "synthetic", *fixed, "--out", folder, *argv)


@pytest.mark.slow
def test_the_teacher_answers_programs_and_the_same_command_resumes(run, evaluate, tmp_path):
    done = evaluate(tmp_path, "--json")
    assert done.code == 0
    found = json.loads(done.out)
    levels = {level["level"]: level for level in found["suites"]["drawn"]}
    assert {name: level["first"]["correct"] for name, level in levels.items()} == {"L1": 1, "L2": 1}
    assert not levels["L1"]["first"]["against"]  # the interpreter's speed is no speed
    assert found["left"] == 0
    assert "no times" in (tmp_path / "report.html").read_text()
    (tmp_path / "report.html").unlink()
    done = evaluate(tmp_path)
    assert done.code == 0
    assert "pass@1" in done.out
    assert run("report", tmp_path).code == 0
    assert (tmp_path / "report.html").is_file()


def test_answers_that_the_judge_cannot_use_are_named_with_the_reason(tmp_path, capsys):
    head = {"record": "run", "left": 1, "unusable": {"set/L1/71/0": "the reference overflows"}}
    record.append(tmp_path / "records.jsonl", [head])
    _show(Examination(run=head, suites={}), tmp_path, {"infra": 0, "usage": 1}, json=True)
    assert "set/L1/71/0: the reference overflows" in capsys.readouterr().err


def test_several_greedy_answers_are_refused_before_anything_is_written(evaluate, tmp_path):
    done = evaluate(tmp_path / "run", "-n", 4)
    assert done.code == 2
    assert "--temperature" in done.err
    assert not (tmp_path / "run").exists()


def test_levels_are_numbers_or_operators():
    assert parse_levels("1, 20,operators") == ["L1", "L20", "operators"]
    assert parse_levels("") == []
    with pytest.raises(UsageError, match="names no levels"):
        parse_levels("1,first")
