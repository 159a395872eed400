"""Kernels that do nothing: what depends on them, where the right answer is a constant too."""

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code
from kernelwright.programs.text import parse
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task

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
    with Judge(JudgeOptions(device="cpu", mode="pure")) as judge:
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


LOST = program_task(
    parse(
        "def get_inputs():\n    return [torch.rand(8, 60), torch.randn(8, 1)]\n\n\n"
        "def fused_operator(x0, x1):\n    t0 = torch.sqrt(x0)\n    t1 = torch.clamp(t0, max=0.5)\n"
        "    t2 = torch.prod(t1, dim=1, keepdim=True)\n    t3 = torch.add(x1, t2)\n"
        "    return [t3]\n"
    )
)
"""The product of sixty shares is nothing beside x1, whatever they are; that of a few is
something."""
ROOT_AND_REST = """\
import torch
import triton
import triton.language as tl


@triton.jit
def root_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.sqrt_rn(tl.load(x + i, i < n, 0.0)), i < n)


@triton.jit
def rest_kernel(t, x, y, rows, n, ROOTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.arange(0, BLOCK)
    inside = row < rows
    product = tl.full((BLOCK,), 1.0, tl.float32)
    for i in range(n):
        root = tl.load(t + row * n + i, inside, 0.0)
        if not ROOTS:
            root = tl.sqrt_rn(root)
        product *= tl.minimum(root, 0.5)
    tl.store(y + row, tl.load(x + row, inside, 0.0) + product, inside)


def fused_operator(x0, x1):
    rows, n = x0.shape
    t = torch.empty_like(x0)
    y = torch.empty_like(x1)
    root_kernel[(triton.cdiv(x0.numel(), 256),)](x0, t, x0.numel(), BLOCK=256)
    rest_kernel[(1,)](READ, x1, y, rows, n, ROOTS, triton.next_power_of_2(rows))
    return [y]
"""


@pytest.mark.slow
def test_what_is_lost_at_one_shape_shows_at_another():
    """At seven columns, that is, which this seed gives: the faithful kernel matters there, and one
    that nobody reads is not excused by what the task ignores at sixty."""
    with Judge(JudgeOptions(device="cpu", mode="pure", seed=0)) as judge:
        text = ROOT_AND_REST.replace("READ", "t").replace("ROOTS, triton", "True, triton")
        faithful = judge.verify(LOST, Candidate(source=text))
        text = ROOT_AND_REST.replace("READ", "x0").replace("ROOTS, triton", "False, triton")
        unread = judge.verify(LOST, Candidate(source=text))
    assert faithful.accepted, faithful.message
    assert not any("without the kernel" in each for each in faithful.advice)
    assert unread.code is Code.DECOY


DOUBLED = program_task(
    parse(
        "def get_inputs():\n    return [torch.randn(16, 64)]\n\n\n"
        "def fused_operator(x0):\n    t0 = torch.mul(x0, 2.0)\n    return [t0]\n"
    )
)
SCALE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n, 0.0) * 2.0, i < n)


def fused_operator(x0):
    y = torch.empty_like(x0)
    scale_kernel[(triton.cdiv(x0.numel(), 256),)](x0, y, x0.numel(), BLOCK=256)
"""


@pytest.fixture(scope="module")
def hybrid():
    with Judge(JudgeOptions(device="cpu", mode="hybrid", seed=0)) as judge:
        yield judge


@pytest.mark.slow
def test_a_kernel_that_works_at_other_shapes_only_is_one_beside_pytorch(hybrid):
    text = f"{SCALE}    return [x0 * 2.0] if x0.numel() == 1024 else [y]\n"
    assert hybrid.verify(DOUBLED, Candidate(source=text)).code is Code.DECOY


def test_a_kernel_that_is_launched_at_one_shape_only_does_not_matter_at_others(judge):
    unread = SCALE[SCALE.index("@triton.jit") : SCALE.index("def fused_operator")]
    text = SCALE.replace(unread, unread + unread.replace("scale_kernel", "unread_kernel"))
    text += (
        "    if x0.numel() == 1024:\n"
        "        unread_kernel[(4,)](x0, torch.empty_like(x0), x0.numel(), BLOCK=256)\n"
        "    return [y]\n"
    )
    assert judge.verify(DOUBLED, Candidate(source=text)).code is Code.DECOY


@pytest.mark.slow
@pytest.mark.parametrize("computed", ["y", "(x0 * 2.0)"], ids=["kernel", "decoy"])
def test_a_late_case_tells_though_the_budget_is_spent(computed):
    """The outputs are wrong for enormous values alone, and the cases with these come last."""
    text = f"{SCALE}    return [{computed}.clamp(-1e30, 1e30)]\n"
    with Judge(JudgeOptions(device="cpu", mode="hybrid", budget_s=0.0)) as hurried:
        verdict = hurried.verify(DOUBLED, Candidate(source=text))
    assert verdict.code is Code.WRONG_VALUES, verdict.message
    assert "base/extreme" in verdict.message


@pytest.mark.slow
def test_a_decoy_does_not_hide_behind_what_rounding_decides(hybrid):
    """PyTorch computes, three ulps off: some elements are right at the second look only, with the
    kernel and without it."""
    task = program_task(
        parse(
            "def get_inputs():\n    return [torch.rand(40, 100)]\n\n\n"
            "def fused_operator(x0):\n    t0 = torch.mul(x0, 9.7)\n    t1 = torch.exp(t0)\n"
            "    t2 = torch.floor(t1)\n    t3 = torch.mul(t2, 0.5)\n    t4 = torch.floor(t3)\n"
            "    t5 = torch.mul(t4, 2.0)\n    t6 = torch.eq(t2, t5)\n    return [t6]\n"
        )
    )
    text = (
        f"{SCALE}    t = (torch.exp(x0 * 9.7) * (1 + 3 * 2.0**-23)).floor()\n"
        "    return [t == (t * 0.5).floor() * 2.0]\n"
    )
    assert hybrid.verify(task, Candidate(source=text)).code is Code.DECOY
