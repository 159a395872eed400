"""`kernelwright eval tritonbench` on a small checkout, in the interpreter."""

import json

import pytest
from small_tritonbench import (
    DOUBLED,
    FORGETS_SCALE,
    NOISY,
    SCALED,
    write_checkout,
    write_predictions,
)

from kernelwright.core import record
from kernelwright.core.kinds.tritonbench import TritonBenchCaseLine


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_checkout(tmp_path_factory.mktemp("checkout") / "root")


@pytest.fixture
def evaluate(run, root):
    def command(out, channel, *argv):
        fixed = ("--root", root, "--device", "cpu", "--workers", 1)
        return run("eval", "tritonbench", *fixed, "--channel", channel, "--out", out, *argv)

    return command


def cases_in(out):
    lines = record.of_kind(record.read(out / "records.jsonl"), TritonBenchCaseLine)
    return {line["name"]: line for line in lines}


@pytest.mark.slow
def test_a_kernel_that_passes_the_tests_and_is_wrong_is_not_correct(evaluate, tmp_path):
    folder = write_predictions(tmp_path / "wrong", scaled_sum=FORGETS_SCALE, noisy=NOISY)
    out = tmp_path / "run"
    done = evaluate(out, "T", "--predictions", folder, "--json")
    assert done.code == 0
    answer = json.loads(done.out)
    assert answer["left"] == 0
    score = answer["score"]
    assert (score["tasks"], score["called"], score["executed"]) == (4, 2, 2)
    assert (score["posable"], score["correct"]) == (1, 0)
    cases = cases_in(out)
    assert cases["scaled_sum"]["codes"] == {"ok": 1, "wrong_values": 1}
    assert cases["noisy"]["refused"] == {"the call draws random numbers": 1}
    assert cases["stepped"]["code"] == cases["torn"]["code"] == "not_posable"
    files = [out / "calls.jsonl", out / "scripts.jsonl"]
    before = [file.read_text() for file in files]
    done = evaluate(out, "T", "--predictions", folder)
    assert done.code == 0
    assert "execution accuracy" in done.out
    assert [file.read_text() for file in files] == before  # the same command only resumes


@pytest.mark.slow
def test_values_alone_accept_a_function_of_pytorch(evaluate, tmp_path):
    folder = write_predictions(tmp_path / "golden", scaled_sum=SCALED)
    options = ("--predictions", folder, "--grade", "recycled", "--checks", "values")
    done = evaluate(tmp_path / "run", "T", *options)
    assert done.code == 0
    assert cases_in(tmp_path / "run")["scaled_sum"]["correct"]


@pytest.mark.slow
def test_the_teacher_answers_the_programs_of_channel_t(evaluate, tmp_path):
    done = evaluate(tmp_path, "T", "--policy", "teacher", "--json")
    assert done.code == 0
    assert json.loads(done.out)["score"]["correct"] == 1
    case = cases_in(tmp_path)["scaled_sum"]
    assert (case["correct"], case["right"], case["called"]) == (True, 2, None)


@pytest.mark.slow
def test_a_model_is_asked_the_instructions_of_channel_g(evaluate, tmp_path, server):
    model = server.replying(f"Here it is:\n```python\n{DOUBLED}\n```")
    spec = f"openai:{server.url}#{model}"
    done = evaluate(tmp_path, "G", "--policy", spec, "--json")
    assert done.code == 0
    score = json.loads(done.out)["score"]
    assert (score["called"], score["executed"], score["correct"]) == (1, 1, 1)
    (request,) = server.asked(model)
    assert request["messages"][-1]["content"] == "Double every value."
    assert (tmp_path / "predictions" / "doubled.py").is_file()
    other = f"openai:{server.url}#{server.replying('x = 1')}"
    done = evaluate(tmp_path, "G", "--policy", other)
    assert done.code == 2
    assert "begun with" in done.err


@pytest.mark.parametrize(
    ("channel", "options", "why"),
    [
        ("T", (), "neither --predictions nor --policy"),
        ("T", ("--policy", "teacher", "--predictions", "x"), "--predictions and --policy"),
        ("G", ("--policy", "teacher"), "cannot write channel G"),
        ("T", ("--predictions", "no-such-folder"), "no such folder or file"),
        ("T", ("--predictions", ".", "--checks", "values"), "values alone are no evidence"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    evaluate, tmp_path, channel, options, why
):
    done = evaluate(tmp_path / "run", channel, *options)
    assert done.code == 2
    assert why in " ".join(done.err.split())
    assert not (tmp_path / "run").exists()


def test_a_root_that_is_no_checkout_is_refused(run, tmp_path):
    options = ("--channel", "T", "--policy", "teacher", "--out", tmp_path / "run")
    done = run("eval", "tritonbench", "--root", tmp_path, *options)
    assert done.code == 2
    assert "TritonBench_T_v1" in done.err
