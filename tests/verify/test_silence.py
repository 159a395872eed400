"""Kernels that do nothing: what depends on them, where the right answer is a constant too."""

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code
from kernelwright.programs.text import parse
from kernelwright.verify.judge import Judge
from kernelwright.verify.program_task import program_task

ANY = program_task(
    parse(
        "def get_inputs():\n    return [torch.randn(8, 64)]\n\n\n"
        "def fused_operator(x0):\n    t0 = torch.any(x0)\n    return [t0]\n"
    )
)
HONEST = """\
import torch
import triton
import triton.language as tl


@triton.jit
def any_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    seen = tl.load(x + i, i < n, 0.0) != 0.0
    tl.store(y, tl.max(seen.to(tl.int32)) != 0)


def fused_operator(x0):
    y = torch.empty((), dtype=torch.bool, device=x0.device)
    any_kernel[(1,)](x0, y, x0.numel(), BLOCK=triton.next_power_of_2(x0.numel()))
    return [y]
"""
DECOY = HONEST.replace("    return [y]", "    return [torch.ones_like(y)]")


@pytest.fixture(scope="module")
def judge():
    with Judge("cpu") as judge:
        yield judge


def test_a_kernel_whose_right_answer_is_always_true_is_no_decoy(judge):
    verdict = judge.verify(ANY, Candidate(source=HONEST))
    assert verdict.accepted, verdict.message


def test_an_answer_that_is_always_true_without_the_kernel_is_one(judge):
    assert judge.verify(ANY, Candidate(source=DECOY)).code is Code.DECOY


TWO_STAGES = """\
import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x, partial, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + tl.program_id(0), tl.max(tl.abs(tl.load(x + i, i < n, 0.0))))


@triton.jit
def finish_kernel(partial, y, count, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y, tl.max(tl.load(partial + i, i < count, 0.0)) != 0.0)


def fused_operator(x0):
    count = triton.cdiv(x0.numel(), 128)
    partial = torch.empty(count, device=x0.device)
    y = torch.empty((), dtype=torch.bool, device=x0.device)
    partial_kernel[(count,)](x0, partial, x0.numel(), BLOCK=128)
    finish_kernel[(1,)](partial, y, count, BLOCK=triton.next_power_of_2(count))
    return [y]
"""


def test_a_first_stage_that_any_leftover_could_stand_in_for_is_no_decoy(judge):
    verdict = judge.verify(ANY, Candidate(source=TWO_STAGES))
    assert verdict.accepted, verdict.message
