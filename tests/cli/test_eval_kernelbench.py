"""`kernelwright eval kernelbench` from a checkout to records, kernels and page, without a GPU."""

import json
import shutil

import pytest
import torch
from cli_runs import exit_code

from kernelwright.cli.suites.kernelbench import parse_levels, parse_places
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.search.module.importing import import_file

TASK = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return {}


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return [2.0]
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A checkout with two tasks, one of which leaves nothing to fuse."""
    root = tmp_path_factory.mktemp("kernelbench")
    for name, body in (
        ("level1/2_Fused.py", "torch.relu(x) * self.scale + 1.0"),
        ("level2/1_Single.py", "torch.relu(x)"),
    ):
        path = root / "KernelBench" / name
        path.parent.mkdir(parents=True)
        path.write_text(TASK.format(body))
    return root


def evaluate(root, folder, *argv):
    fixed = ("--root", root, "--out", folder, "--levels", "1,2", "--jobs", "1")
    fixed += ("--device", "cpu", "--policy", "teacher", "--budget", "600")
    return exit_code(["eval", "kernelbench", *map(str, (*fixed, *argv))])


@pytest.fixture(scope="module")
def taught(root):
    """The folder of a run with the teacher."""
    assert evaluate(root, root / "taught") == 0
    return root / "taught"


def cases_in(folder):
    lines = record.read(folder / "records.jsonl")
    return {line["name"]: line for line in lines if line["record"] == "benchmark_case"}


@pytest.mark.slow
def test_a_run_without_time_for_a_case_is_to_go_on(root, tmp_path):
    assert evaluate(root, tmp_path / "run", "--for", "0") == 4
    (head,) = record.read(tmp_path / "run" / "records.jsonl")
    assert head["cases"] == 2
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
def test_the_teacher_leaves_records_kernels_and_a_page(taught):
    found = cases_in(taught)
    assert found["2_Fused"]["correct"]
    assert found["2_Fused"]["kept"]
    assert (found["1_Single"]["correct"], found["1_Single"]["kept"]) == (True, False)
    kernel, slower = sorted((taught / "kernels").iterdir())
    assert kernel.name == "level_1_problem_2_sample_0_kernel.py"
    assert "@triton.jit" in slower.read_text()
    model = import_file(kernel).ModelNew(2.0)
    assert isinstance(model, torch.nn.Module)
    assert model.scale == 2.0
    page = (taught / "report.html").read_text()
    assert "1_Single" in page
    assert "Nothing was timed, because there was no GPU." in page


def test_the_page_is_made_again_from_records(taught):
    page = taught / "report.html"
    before = page.read_text()
    page.unlink()
    assert exit_code(["report", str(taught)]) == 0
    assert page.read_text() == before


def test_the_same_command_ends_at_once_and_prints_counts_last(root, taught, capsys):
    before = (taught / "records.jsonl").read_text()
    assert evaluate(root, taught) == 0
    assert (taught / "records.jsonl").read_text() == before
    *_, first, second = capsys.readouterr().out.strip().splitlines()
    assert first.split()[:4] == ["L1", "1", "1", "1"]
    assert second.split()[:4] == ["L2", "1", "1", "0"]


@pytest.mark.slow
def test_samples_in_a_folder_are_judged_and_counted(root, taught, tmp_path, capsys):
    good = (taught / "kernels" / "level_1_problem_2_sample_0_kernel.py").read_text()
    for sample, text in enumerate(("class ModelNew(:", good)):
        (tmp_path / f"level_1_problem_2_sample_{sample}_kernel.py").write_text(text)
    folder = tmp_path / "out"
    folder.mkdir()
    shutil.copy(taught / "lint.jsonl", folder)
    assert evaluate(root, folder, "--policy", tmp_path, "--only", "1/2", "--json") == 0
    (scores,) = json.loads(capsys.readouterr().out)["all"]
    assert scores["pass_at"] == {"1": 0.5, "2": 1.0}
    assert scores["correct"] == 0, "the first sample stands for its task"
    lines = [line for line in record.read(folder / "records.jsonl") if "code" in line]
    assert {line["sample"]: line["code"] for line in lines} == {0: "syntax_error", 1: "ok"}


@pytest.fixture(scope="module")
def cast(root):
    """The folder of a run in bfloat16."""
    folder = root / "cast"
    assert evaluate(root, folder, "--dtype", "bfloat16", "--only", "1/2", "--cross-check") == 0
    return folder


@pytest.mark.slow
def test_in_bfloat16_the_cast_model_is_searched_judged_and_delivered(cast):
    run, found = record.read(cast / "records.jsonl")
    assert (run["dtype"], found["level"], found["correct"], found["kept"]) == (
        "bfloat16", "L1-bf16", True, True,
    )  # fmt: skip
    assert found["errors"]["rms_reference"] > 1e-4, "PyTorch rounds to bfloat16"
    assert found["errors"]["rms_candidate"] <= found["errors"]["rms_allowed"]
    [kernel] = (cast / "kernels").iterdir()
    assert kernel.name == "level_1_problem_2_sample_0_kernel.py"
    module = import_file(kernel)
    assert [value.dtype for value in module.get_inputs()] == [torch.bfloat16]
    assert isinstance(module.ModelNew(2.0), torch.nn.Module)
    page = (cast / "report.html").read_text()
    assert "cast to bfloat16" in page
    assert "L1-bf16/2_Fused" in page


@pytest.mark.slow
def test_a_run_in_bfloat16_is_not_resumed_as_another(root, cast, capsys):
    assert evaluate(root, cast, "--only", "1/2") == 2
    assert 'begun with dtype = "bfloat16"' in " ".join(capsys.readouterr().err.split())


def test_in_bfloat16_kernelbench_s_evaluator_is_skipped_with_a_reason(root, cast, capsys):
    again = ("--dtype", "bfloat16", "--only", "1/2", "--cross-check")
    assert evaluate(root, cast, *again) == 0
    assert "skipped: it judges in fp32" in " ".join(capsys.readouterr().err.split())


def test_wrong_options_are_named(root, tmp_path, capsys):
    assert evaluate(root, tmp_path, "--subset", "easy") == 2
    assert evaluate(root, tmp_path, "--levels", "1,7") == 2
    assert evaluate(root, tmp_path / "x", "--cross-check") == 2
    said = capsys.readouterr().err
    assert "one of all, metr, clean" in said
    assert "no level 7" in said
    assert "needs a GPU" in said


def test_lists_of_levels_and_tasks():
    assert parse_levels("3, 1,1") == [1, 3]
    assert parse_places("1/7, 2/20,") == [(1, 7), (2, 20)]
    for wrong in ("", "one", "1,,2"):
        with pytest.raises(UsageError, match="no list"):
            parse_levels(wrong)
    with pytest.raises(UsageError, match="names no tasks"):
        parse_places("1-7")
