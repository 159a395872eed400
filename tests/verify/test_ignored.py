"""Kernels for calls that the task itself ignores: faithful, and idle."""

import pytest
import torch

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Code, Precision
from kernelwright.programs.text import parse
from kernelwright.verify.ignored import ignored_calls
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions, Rules
from kernelwright.verify.tasks.cases import Cases
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import CPU, FunctionTask

BODY = """
def get_inputs():
    x0 = torch.randn((16, 64))
    x1 = torch.randn((16, 64))
    return [x0, x1]


def fused_operator(x0, x1):
    t0 = torch.tanh(x0)
    t1 = torch.mul(t0, FACTOR)
    t2 = torch.add(x1, t1)
    return [t2]
"""
SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def tanh_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n, 0.0)
    tl.store(y + i, 1.0 - 2.0 / (tl.exp(2.0 * v) + 1.0), i < n)


@triton.jit
def add_kernel(x, t, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = tl.load(t + i, i < n, 0.0)
    tl.store(y + i, tl.load(x + i, i < n, 0.0) + FACTOR * t, i < n)


def fused_operator(x0, x1):
    t = torch.empty_like(x0)
    y = torch.empty_like(x1)
    grid = (triton.cdiv(x0.numel(), 256),)
    tanh_kernel[grid](x0, t, x0.numel(), BLOCK=256)
    add_kernel[grid](x1, t, y, x0.numel(), BLOCK=256)
    return [y]
"""
IDLE = SOURCE.replace("add_kernel[grid](x1, t, y", "add_kernel[grid](x1, x0, y").replace(
    "    t = tl.load(t + i, i < n, 0.0)\n",
    "    v = tl.load(t + i, i < n, 0.0)\n    t = 1.0 - 2.0 / (tl.exp(2.0 * v) + 1.0)\n",
)
"""Nobody reads what its first kernel writes."""
IGNORES = program_task(parse(BODY.replace("FACTOR", "1e-12")))
NEEDS = program_task(parse(BODY.replace("FACTOR", "0.5")))


RULES = Rules(CPU, Precision.STRICT, "pure")


def candidate(factor):
    return Candidate(source=SOURCE.replace("FACTOR", factor))


def ignored_in(task):
    return ignored_calls(Cases({"base": task}, RULES, seed=3))


def test_what_is_lost_in_rounding_is_ignored_and_the_rest_is_not():
    assert ignored_in(IGNORES) == ("t0", "t1")
    assert ignored_in(NEEDS) == ()


def test_what_is_the_same_for_all_inputs_is_no_sign_that_anything_is_ignored():
    text = BODY.replace("torch.tanh(x0)", "torch.any(x0)").replace("FACTOR", "0.5")
    assert ignored_in(program_task(parse(text))) == ()


@pytest.mark.parametrize(("factor", "ignored"), [("1e-12", ("t0",)), ("0.5", ())])
def test_where_results_are_the_same_for_all_inputs_other_numbers_decide(factor, ignored):
    text = BODY.replace("torch.tanh(x0)", "torch.ge(x0, -1e9)").replace("FACTOR", factor)
    assert ignored_in(program_task(parse(text))) == ignored


def test_of_indices_nothing_is_known():
    call = "torch.argmax(x0, dim=1, keepdim=True)"
    text = BODY.replace("torch.tanh(x0)", call).replace("FACTOR", "0")
    assert ignored_in(program_task(parse(text.replace("randn((16, 64))", "zeros((16, 64))")))) == ()


@pytest.mark.parametrize(
    "calls",
    [
        "t0 = torch.clamp(x0, 0, 15)\n    t1 = torch.Tensor.to(t0, dtype=torch.int64)\n"
        "    t2 = F.embedding(t1, x1)",
        "t0 = torch.sigmoid(x0)\n    t1 = torch.sigmoid(x1)\n"
        '    t2 = F.binary_cross_entropy(t0, t1, reduction="none")',
    ],
    ids=["indices", "probabilities"],
)
def test_numbers_outside_of_a_domain_are_not_tried(calls):
    body = BODY[: BODY.index("    t0 =")] + f"    {calls}\n    return [t2]\n"
    assert ignored_in(program_task(parse(body))) == ()


def test_of_a_function_nothing_is_known():
    def scaled(x):
        return [x + 1e-12 * torch.tanh(x)]

    task = FunctionTask(name="f", get_inputs=lambda: [torch.randn(8)], function=scaled)
    assert ignored_in(task) == ()


@pytest.fixture(scope="module")
def judge():
    with Judge(JudgeOptions(device="cpu", mode="pure")) as judge:
        yield judge


@pytest.fixture(scope="module")
def recycled():
    with Judge(JudgeOptions(device="cpu", mode="pure", grade="recycled")) as judge:
        yield judge


@pytest.mark.slow
@pytest.mark.parametrize("grade", ["judge", "recycled"])
def test_a_faithful_kernel_for_what_the_task_ignores_is_no_decoy(grade, request):
    verdict = request.getfixturevalue(grade).verify(IGNORES, candidate("1e-12"))
    assert verdict.accepted, verdict.message
    (said,) = [each for each in verdict.advice if "without the kernel" in each]
    assert "tanh_kernel: the task does not depend on t0, t1 either" in said


@pytest.mark.slow
def test_where_the_task_ignores_nothing_an_idle_kernel_is_a_decoy(judge):
    assert judge.verify(NEEDS, candidate("0.5")).accepted
    verdict = judge.verify(NEEDS, Candidate(source=IDLE.replace("FACTOR", "0.5")))
    assert verdict.code is Code.DECOY
    assert verdict.message == "the outputs are right without the kernel tanh_kernel: a decoy"


@pytest.mark.slow
@pytest.mark.parametrize(("num_more", "code"), [(3, Code.OK), (4, Code.DECOY)])
def test_more_than_two_idle_kernels_for_each_ignored_call_are_decoys(num_more, code, judge):
    """Two calls are ignored, and one kernel of the candidate computes one of them."""
    launch = "    tanh_kernel[grid](x0, t, x0.numel(), BLOCK=256)\n"
    names = [f"kernel_{number}" for number in range(num_more)]
    source = candidate("1e-12").source
    kernel = source[source.index("@triton.jit") : source.index("@triton.jit\ndef add_kernel")]
    more = "".join(kernel.replace("tanh_kernel", name) for name in names)
    launches = "".join(
        launch.replace("tanh_kernel", name).replace("x0, t,", "x0, torch.empty_like(x0),")
        for name in names
    )
    source = source.replace(kernel, kernel + more).replace(launch, launch + launches)
    verdict = judge.verify(IGNORES, Candidate(source=source))
    assert verdict.code is code, verdict.message


def test_where_pytorch_may_compute_beside_it_it_is_one_too_and_the_task_is_named():
    with Judge(JudgeOptions(device="cpu", mode="hybrid")) as judge:
        verdict = judge.verify(IGNORES, candidate("1e-12"))
    assert verdict.code is Code.DECOY
    assert "a decoy; the task does not depend on t0, t1 either" in verdict.message
