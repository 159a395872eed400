"""Gaps of plans: none in plans of right answers, and the place where a kernel was taken out."""

from dataclasses import replace

import pytest

from kernelwright.core.candidate import KernelPlan
from kernelwright.policy.gaps import first_gap
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.teacher.whole import write_best, write_whole

PROGRAM = parse(
    "import torch\nimport torch.nn.functional as F\n\n\ndef get_inputs():\n"
    "    x0 = torch.randn((8, 16), dtype=torch.float32)\n    return [x0]\n\n\n"
    "def fused_operator(x0):\n    t0 = torch.relu(x0)\n    t1 = t0.transpose(0, 1)\n"
    "    t2 = torch.exp(t1)\n    return [t2, t0]\n"
)
RELU = KernelPlan(kernel="relu_kernel", fuses=("relu",), loop="pointwise", makes=("t0",))
RELU = replace(RELU, reads=("x0",))
EXP = KernelPlan(kernel="exp_kernel", fuses=("exp",), loop="pointwise", makes=("t2",))
EXP = replace(EXP, reads=("t1",))


@pytest.mark.parametrize(
    ("plan", "gap"),
    [
        ([RELU, EXP], None),  # t1 is a view of t0: no kernel makes it
        ([EXP, RELU], 0),
        ([EXP], 0),
        ([RELU], 1),
        ([], 0),
        ([RELU, replace(EXP, makes=("t3",))], 2),
    ],
)
def test_a_gap_is_before_the_kernel_that_reads_an_unknown_value(plan, gap):
    assert first_gap(plan, PROGRAM) == gap


@pytest.mark.slow
def test_plans_of_right_answers_have_no_gap_and_plans_without_a_kernel_have_one():
    levels = [line for line in benchmark_programs() if line["level"] in (5, 20)]
    num_shorter = 0
    for number, line in enumerate(levels[::12]):
        program = parse(line["text"])
        best = write_best(program, limit=1, calls=2)
        for candidate in (*best, *write_whole(program, limit=1, seed=number)):
            assert first_gap(candidate.plan, program) is None
            for i, kernel in enumerate(candidate.plan):
                if kernel.makes:
                    shorter = candidate.plan[:i] + candidate.plan[i + 1 :]
                    gap = first_gap(shorter, program)
                    # A value that nothing reads, and that is no output, leaves no gap.
                    num_shorter += gap is not None
                    assert gap is None or gap >= i
    assert num_shorter > 20
