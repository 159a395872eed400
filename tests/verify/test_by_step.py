"""`verify --steps`: a rejected candidate says which of its kernels are right."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from kernelwright.cli.main import app
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.decompose import steps_of
from kernelwright.programs.text import to_text
from kernelwright.teacher.whole import write_whole


@pytest.fixture
def files(tmp_path):
    """A program of two calls, and a candidate whose first kernel is broken."""
    builder = Builder()
    x, y = builder.input(TensorType((12, 16))), builder.input(TensorType((12, 16)))
    (a,) = builder.call("exp", input=x)
    (b,) = builder.call("softmax", input=y, dim=-1)
    program = builder.program([a, b])
    reference, candidate = tmp_path / "reference.py", tmp_path / "candidate.py"
    reference.write_text(to_text(program))
    candidate.write_text(broken(program))
    return reference, candidate


def broken(program):
    for seed in range(40):
        for written in write_whole(program, limit=1, seed=seed):
            if len(steps_of(written.source, program)) == 2:
                return re.sub(r"(tl\.store\(t0_ptr.*), t0,", r"\1, t0 * 1.5,", written.source)
    raise AssertionError("no cut into two kernels was drawn")


@pytest.mark.slow
def test_the_command_line_names_the_kernel_that_is_wrong(files):
    words = ["verify", *map(str, files), "--device", "cpu", "--mode", "pure", "--steps"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 1, shown.output
    lines = shown.output.splitlines()
    assert any(re.search(r"^1 +t0 +wrong_values: ", line) for line in lines), shown.output
    assert any(re.search(r"^2 +t1 +right", line) for line in lines), shown.output


@pytest.mark.slow
def test_json_has_a_verdict_for_each_step(files):
    words = ["verify", *map(str, files), "--device", "cpu", "--mode", "pure", "--steps", "--json"]
    steps = json.loads(CliRunner().invoke(app, words).stdout)["steps"]
    assert [(step["makes"], step["accepted"]) for step in steps] == [
        (["t0"], False),
        (["t1"], True),
    ]


@pytest.mark.slow
def test_a_candidate_without_steps_still_has_its_verdict(files, tmp_path):
    other = tmp_path / "other.py"
    other.write_bytes(b"def fused_operator(x0, x1):\n    return [x0, x1]  # \xff\n")
    shown = verified(files[0], other)
    assert shown.exit_code == 1
    assert "rejected" in shown.output
    assert "No kernel can be judged alone" in shown.output


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["candidate.py", "package.module:factory"])
def test_a_reference_that_is_no_program_is_refused_before_anything_is_judged(files, reference):
    ref = files[1] if reference == "candidate.py" else reference
    assert verified(ref, files[1]).exit_code == 2


def verified(*files):
    words = [sys.executable, "-m", "kernelwright.cli.main", "verify", *map(str, files)]
    words += ["--device", "cpu", "--mode", "pure", "--steps"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Traceback" not in ended.stderr
    return SimpleNamespace(exit_code=ended.returncode, output=ended.stdout + ended.stderr)
