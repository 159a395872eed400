"""`kernelwright eval models` over a run that has its records: what it prints, what it refuses."""

import json

import pytest
from cli_runs import exit_code

from kernelwright.bench.models.run import ModelsPlan
from kernelwright.core import record

CASE = {
    "record": "model_case",
    "model": "transformers/bert",
    "dtype": "float32",
    "phase": "prefill",
    "batch": 1,
    "block": None,
    "failed": "measure: out of memory",
}
OPTIONS = ("--small", "--dtype", "float32", "--phase", "prefill", "--device", "cpu")


@pytest.fixture
def folder(tmp_path):
    """A run that is done."""
    plan = ModelsPlan(
        out=tmp_path,
        models=["transformers/bert"],
        dtypes=["float32"],
        phases=["prefill"],
        by=["whole"],
        is_small=True,
        device="cpu",
        budget_s=150.0,
        timeout_s=1.0,
        deadline_s=0.0,
    )
    environment = {"gpu": None, "versions": {"torch": "2.13"}, "commit": None}
    record.append(plan.records, [plan.head() | {"environment": environment}, CASE])
    return tmp_path


def code_of(*argv):
    return exit_code([*map(str, argv)])


def test_a_run_that_is_done_prints_its_table_and_writes_the_page(folder, capsys):
    pytest.importorskip("transformers")
    command = ("eval", "models", "transformers/bert", *OPTIONS, "--out", folder)
    assert code_of(*command) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "0 of 1 cases ran" in printed
    assert (folder / "report.html").is_file()
    assert code_of(*command, "--json") == 0
    assert json.loads(capsys.readouterr().out)[1] == CASE


def test_report_writes_the_page_again(folder, capsys):
    assert code_of("report", folder) == 0
    assert "report.html" in capsys.readouterr().err
    assert "measure: out of memory" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["resnet50"], "names no model"),
        (["transformers/bert", "--dtype", "int8"], "--dtype is 'int8'"),
        (["transformers/bert", "--phase", ","], "--phase is ','"),
        (["transformers/bert", "--by", "layers"], "choose among whole, blocks"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(argv, said, tmp_path, capsys):
    assert code_of("eval", "models", *argv, "--device", "cpu", "--out", tmp_path / "run") == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_phase_that_no_model_has_is_refused(tmp_path, capsys):
    pytest.importorskip("transformers")
    command = ("eval", "models", "transformers/bert", "--small", "--device", "cpu")
    assert code_of(*command, "--phase", "decode", "--out", tmp_path / "run") == 2
    assert "no model has a call of decode" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--for", "nan"), ("--for", "-1"), ("--timeout", "-5")])
def test_times_that_are_none_are_refused(option, tmp_path):
    command = ("eval", "models", "--device", "cpu", "--out", tmp_path / "run")
    assert code_of(*command, *option) == 2
