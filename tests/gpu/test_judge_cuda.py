"""The judge on a GPU: real launches, times of both sides, probes that need a device."""

import torch

from corpus import ROOT
from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code, Verdict
from kernelwright.programs.text import parse
from kernelwright.verify.api import verify
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task

RELU = (ROOT / "honest" / "plain.py").read_text()
BIG_RELU = program_task(
    parse((ROOT / "tasks" / "relu.py").read_text().replace("(37, 100)", "(4096, 8192)"))
)


def test_times_of_a_memory_bound_kernel_are_near_the_references():
    with Judge(JudgeOptions(device="cuda", mode="pure")) as judge:
        verdict = judge.verify(BIG_RELU, Candidate(source=RELU))
    assert verdict.accepted, verdict.message
    assert 0.3 < verdict.speedup < 3.0
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_hybrid_mode_reports_the_librarys_share():
    task, candidate = ROOT / "tasks" / "linear_model.py", ROOT / "honest/hybrid_library_call.py"
    verdict = verify(task, candidate, device="cuda", mode="hybrid")
    assert verdict.accepted, verdict.message
    assert 0.0 < verdict.library_share < 1.0


def test_screening_times_the_right_ones_and_survives_the_wrong():
    wrong = RELU.replace("return [relu(x0)]", "return [relu(x0) * 2]")
    outside = RELU.replace("tl.load(x + i, i < n)", "tl.load(x + i + (1 << 40), i < n)")
    with Judge(JudgeOptions(device="cuda", mode="pure")) as judge:
        sources = [RELU, wrong, outside, RELU.replace("4096", "1024")]
        verdicts = judge.screen(BIG_RELU, [Candidate(source=s) for s in sources])
        [alone] = judge.screen(BIG_RELU, [Candidate(source=outside)])
    assert [v.accepted for v in verdicts] == [True, False, False, True]
    assert not alone.accepted
    assert verdicts[0].speedup is not None
    assert verdicts[3].speedup is not None
    assert verdicts[2].code in (Code.OUT_OF_BOUNDS, Code.RUNTIME_ERROR, Code.CRASHED)


def test_tf32_is_refused_under_strict_and_accepted_under_tf32():
    honest = (ROOT / "honest" / "runtime_loop.py").read_text()
    candidate = Candidate(source=honest.replace('"ieee"', '"tf32"'))
    text = (ROOT / "tasks" / "matmul.py").read_text()
    task = program_task(parse(text.replace("130", "512")))
    with Judge(JudgeOptions(device="cuda", precision="strict", mode="pure")) as judge:
        assert judge.verify(task, candidate).code is Code.WRONG_VALUES
    with Judge(JudgeOptions(device="cuda", precision="tf32", mode="pure")) as judge:
        verdict = judge.verify(task, candidate)
        assert verdict.accepted, verdict.message


def test_flags_of_the_host_are_as_they_were_after_judging_tf32():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    with Judge(JudgeOptions(device="cuda", precision="tf32", mode="pure")) as judge:
        judge.verify(BIG_RELU, Candidate(source=RELU))
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
