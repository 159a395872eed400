"""`kernelwright eval models` over a run that has its records: what it prints, what it refuses."""

import json

import pytest

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


def test_a_run_that_is_done_prints_its_table_and_writes_the_page(run, folder):
    pytest.importorskip("transformers")
    command = ("eval", "models", "transformers/bert", *OPTIONS, "--out", folder)
    printed = run(*command).out
    assert max(map(len, printed.splitlines())) <= 80
    assert "0 of 1 cases ran" in printed
    assert (folder / "report.html").is_file()
    done = run(*command, "--json")
    assert done.code == 0
    assert json.loads(done.out)[1] == CASE


def test_report_writes_the_page_again(run, folder):
    assert "report.html" in run("report", folder).err
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
def test_what_cannot_be_run_is_refused_before_anything_is_written(run, argv, said, tmp_path):
    done = run("eval", "models", *argv, "--device", "cpu", "--out", tmp_path / "run")
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "run").exists()


def test_a_phase_that_no_model_has_is_refused(run, tmp_path):
    pytest.importorskip("transformers")
    command = ("eval", "models", "transformers/bert", "--small", "--device", "cpu")
    done = run(*command, "--phase", "decode", "--out", tmp_path / "run")
    assert done.code == 2
    assert "no model has a call of decode" in done.err


@pytest.mark.parametrize("option", [("--for", "nan"), ("--for", "-1"), ("--timeout", "-5")])
def test_times_that_are_none_are_refused(run, option, tmp_path):
    command = ("eval", "models", "--device", "cpu", "--out", tmp_path / "run")
    assert run(*command, *option).code == 2
