"""The judge as a library: the callable package and the helper for test suites."""

import subprocess
import sys
from dataclasses import replace

import pytest

import kernelwright
from corpus import ROOT
from kernelwright.core.candidate import Candidate
from kernelwright.verify import testing
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.tasks.load import load_task

TASK, GOOD = ROOT / "tasks" / "relu.py", ROOT / "honest" / "plain.py"
WRONG = GOOD.read_text().replace("tl.maximum", "tl.minimum")


@pytest.mark.slow
def test_files_sources_and_tasks_are_judged_alike():
    for ref, candidate in (
        (TASK, GOOD),
        (str(TASK), GOOD.read_text()),
        (load_task(TASK), Candidate(source=GOOD.read_text())),
    ):
        assert kernelwright.verify(ref, candidate, device="cpu").accepted


@pytest.mark.slow
def test_library_calls_may_stay_where_no_mode_is_named():
    arguments = ROOT / "tasks" / "linear_model.py", ROOT / "honest" / "hybrid_library_call.py"
    assert kernelwright.verify(*arguments, device="cpu").accepted
    assert testing.assert_kernel(*arguments, device="cpu").mode == "hybrid"
    assert JudgeRecipe().mode == Judge(JudgeOptions(device="cpu")).rules.mode == "hybrid"


@pytest.mark.slow
def test_verify_can_be_called_before_and_after_its_modules_are_imported():
    code = (
        "import kernelwright, sys; assert callable(kernelwright.verify)\n"
        "assert 'torch' not in sys.modules\n"
        "import kernelwright.verify.values.compare; assert callable(kernelwright.verify)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_assert_kernel_passes_a_good_one_and_gives_its_verdict():
    assert testing.assert_kernel(TASK, GOOD, device="cpu").accepted


def test_assert_kernel_says_why_and_what_to_do(tmp_path):
    path = tmp_path / "candidate.py"
    path.write_text(GOOD.read_text().replace("tl.maximum", "tl.maximal"))
    with pytest.raises(AssertionError, match=r"candidate\.py:\d+: compile, compile_error"):
        testing.assert_kernel(TASK, path, device="cpu")
    with pytest.raises(AssertionError, match="remedy: The case names"):
        testing.assert_kernel(TASK, WRONG, device="cpu")


def test_assert_kernel_asks_the_interval_not_the_median(monkeypatch):
    verdict = testing.assert_kernel(TASK, GOOD, device="cpu")
    timed = replace(verdict, speedup_interval=(0.98, 1.4))
    monkeypatch.setattr(testing, "verify", lambda *_, **__: timed)
    testing.assert_kernel(TASK, GOOD, min_speedup=0.9)
    monkeypatch.setattr(type(timed), "speedup", 1.2)
    with pytest.raises(AssertionError, match=r"0\.98 to 1\.40"):
        testing.assert_kernel(TASK, GOOD, min_speedup=1.0)


def test_assert_kernel_fails_where_a_speedup_is_asked_for_and_nothing_is_timed():
    with pytest.raises(AssertionError, match="nothing was timed on cpu-interpreter"):
        testing.assert_kernel(load_task(TASK), GOOD, device="cpu", min_speedup=0.1)
