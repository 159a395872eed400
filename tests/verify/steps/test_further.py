"""What lies beyond the task decides under the contract `drop-in` and is advice under `fixed`."""

import pytest
import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code
from kernelwright.verify import further, trial
from kernelwright.verify.further import strided
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.task import FunctionTask

DENSE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * 2, i < n)


def fused_operator(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""


@pytest.fixture
def judged(monkeypatch):
    monkeypatch.setattr(trial, "findings", lambda *_, **__: ())
    monkeypatch.setattr(Judge, "_compile", lambda *_: None)

    def verdict(contract, source=DENSE):
        task = FunctionTask(
            name="t", get_inputs=lambda: [torch.randn(8, 8)], function=lambda x: x * 2
        )
        with Judge(JudgeOptions(device="cpu", mode="pure", seed=1, contract=contract)) as judge:
            return judge.verify(task, Candidate(source=source))

    return verdict


def test_strided_inputs_are_advice_under_fixed(judged):
    verdict = judged("fixed")
    assert verdict.accepted, verdict.message
    assert any("strided inputs" in text for text in verdict.advice)


def test_strided_inputs_decide_under_drop_in(judged):
    verdict = judged("drop-in")
    assert not verdict.accepted
    assert verdict.code in (Code.WRONG_VALUES, Code.OUT_OF_BOUNDS, Code.NOT_FINITE)
    assert "strided inputs" in verdict.message


ROWS = DENSE.replace(
    "    y = torch.empty(",
    "    if x.stride(-1) == 1 and not x.is_contiguous():\n"
    "        x = x.contiguous()\n"
    "    y = torch.empty(",
)


def test_dimensions_in_another_order_decide_under_drop_in_alone(judged):
    assert judged("fixed", ROWS).accepted
    verdict = judged("drop-in", ROWS)
    assert not verdict.accepted
    assert "exchanged in memory" in verdict.message


def test_without_the_look_beyond_a_kernel_for_dense_inputs_passes_as_a_drop_in(judged, monkeypatch):
    monkeypatch.setattr(further, "look", lambda *_: None)
    verdict = judged("drop-in")
    assert verdict.accepted, verdict.message


def test_strided_copies_have_gaps_and_the_same_values():
    for x in (torch.randn(4, 5), torch.randn(6)):
        assert torch.equal(strided(x), x)
        assert not strided(x).is_contiguous()
    for x in (3, torch.tensor(1.0), torch.randn(4, 1), torch.randn(4, 5).T):
        assert strided(x) is x
