"""A part of the corpus on a GPU: cheats end where their files say, honest kernels are accepted."""

import pytest
import torch

from corpus import ROOT, sample_for_gpu
from kernelwright.core.candidate import Candidate
from kernelwright.programs.text import parse
from kernelwright.verify import trial
from kernelwright.verify.api import verify
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.program_task import program_task

PLAIN = (ROOT / "honest" / "plain.py").read_text()
BIG_RELU = program_task(
    parse((ROOT / "tasks" / "relu.py").read_text().replace("(37, 100)", "(2048, 4096)"))
)


@pytest.mark.parametrize("entry", sample_for_gpu("honest"), ids=lambda entry: entry.name)
def test_an_honest_kernel_is_accepted(entry):
    options = {"mode": entry.mode, "contract": entry.contract}
    verdict = verify(entry.task, entry.path, device="cuda", **options)
    assert verdict.accepted, f"{verdict.code}: {verdict.message}"
    assert {"reference", "candidate"} <= verdict.times.keys()
    assert verdict.speedup_interval[0] <= verdict.speedup <= verdict.speedup_interval[1]
    assert verdict.noise is not None
    assert {"times plausible", "timed outputs"} <= set(verdict.checks)


@pytest.mark.parametrize("entry", sample_for_gpu("cheats"), ids=lambda entry: entry.name)
def test_a_cheat_is_rejected_at_its_stage_by_its_code(entry, monkeypatch, request):
    if "open" in entry.facts:
        request.applymarker(pytest.mark.xfail(reason=entry.facts["open"]))
    if "static" not in entry.stages("cuda"):
        monkeypatch.setattr(trial, "findings", lambda *_, **__: ())
    options = {"mode": entry.mode, "contract": entry.contract, "large": entry.is_large}
    # A path would be judged in a child process, which has the static rules.
    task = load_task(entry.task, torch.device("cuda"))
    verdict = verify(task, entry.path, device="cuda", **options)
    assert verdict.code.value in entry.codes("cuda"), f"{verdict.code}: {verdict.message}"
    assert verdict.stage.value in entry.stages("cuda"), verdict.message


def test_lines_that_a_kernel_asks_to_keep_are_flushed():
    keeping = PLAIN.replace(
        "tl.load(x + i, i < n)", 'tl.load(x + i, i < n, eviction_policy="evict_last")'
    )
    assert keeping != PLAIN
    with Judge(JudgeOptions(device="cuda", mode="pure")) as judge:
        usual, kept = (judge.verify(BIG_RELU, Candidate(source=s)) for s in (PLAIN, keeping))
    assert usual.accepted, usual.message
    assert kept.accepted, kept.message
    assert kept.times["candidate"].median_ms > 0.9 * usual.times["candidate"].median_ms


def test_breaking_graph_capture_changes_no_clock():
    breaking = PLAIN.replace(
        "    return [relu(x0)]", "    torch.cuda.synchronize()\n    return [relu(x0)]"
    )
    assert breaking != PLAIN
    with Judge(JudgeOptions(device="cuda", mode="pure")) as judge:
        usual, broken = (judge.verify(BIG_RELU, Candidate(source=s)) for s in (PLAIN, breaking))
    assert usual.accepted, usual.message
    assert broken.accepted, broken.message
    assert "candidate_graph" in usual.times
    assert "candidate_graph" not in broken.times
    assert broken.times["candidate"].median_ms > 0.9 * usual.times["candidate"].median_ms
