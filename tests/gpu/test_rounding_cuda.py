"""What rounding decides and what a task ignores, where answers lie on a GPU."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.core.verdict import Precision
from kernelwright.programs.text import parse
from kernelwright.verify.ignored import ignored_calls
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import WrongOutputs
from kernelwright.verify.tasks.cases import Cases
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import FunctionTask
from kernelwright.verify.values.compare import compare
from kernelwright.verify.values.second_look import ReferenceCall, look_again

GPU = torch.device("cuda")
RULES = Rules(GPU, Precision.STRICT, "pure")
TEXT = """
def get_inputs():
    return [torch.randn(4000), torch.randn(4000)]


def fused_operator(x0, x1):
    t0 = torch.tanh(x0)
    t1 = torch.mul(t0, 1e-12)
    t2 = torch.gt(t0, x1)
    t3 = torch.add(x1, t1)
    return [RETURNED]
"""


def task(returned):
    return program_task(parse(TEXT.replace("RETURNED", returned)))


def test_elements_that_rounding_decides_may_be_either_and_others_may_not():
    decided = task("t2")
    x = torch.randn(4000, device=GPU)
    y = torch.rand(4000, device=GPU) - 3.0
    y[:60] = x[:60].tanh() * (1 + 2.0**-22)
    expected = decided.expected([x, y], 3, GPU).outputs
    output = expected.native[0].clone()
    output[:60] ^= True

    def looked_again():
        comparison = compare((output,), expected, RULES.precision)
        wrong = WrongOutputs(
            comparison.mismatch.code, comparison.mismatch.message, comparison.errors
        )
        return look_again(wrong, (output,), ReferenceCall(decided, [x, y], 3, expected), RULES)

    assert looked_again() is None
    output[99] ^= True
    with pytest.raises(WrongOutputs):
        looked_again()


def test_what_is_lost_in_rounding_is_ignored():
    assert ignored_calls(Cases({"base": task("t3")}, RULES, seed=3)) == ("t0", "t1", "t2")


@pytest.mark.parametrize("moved", ["nudged", "rounded_otherwise"])
def test_probabilities_stay_probabilities(moved):
    """One above 1 would end the process, not raise."""
    loss = FunctionTask(
        name="loss",
        get_inputs=lambda: [torch.randn(1000) + 14, torch.randint(0, 2, (1000,)).float()],
        function=lambda x, y: [F.binary_cross_entropy(torch.sigmoid(x), y)],
    )
    (found,) = getattr(loss, moved)(loss.inputs(0, "plain", GPU), 0, GPU)
    assert found.isfinite()
