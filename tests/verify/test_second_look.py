"""The second look: what rounding alone does to an answer is allowed, and nothing more."""

import pytest
import torch

from kernelwright.verify.compare import Expected, Precision, compare, effective_count
from kernelwright.verify.judging import Rules
from kernelwright.verify.second_look import NUDGES, tolerant
from kernelwright.verify.task import CPU, FunctionTask

RULES = Rules(CPU, Precision.STRICT, "pure")


@pytest.mark.parametrize(
    ("values", "count"), [([3.0], 1), ([1.0] * 50, 50), ([1.0] * 9 + [1e6], 1), ([0.0] * 4, 4)]
)
def test_the_effective_count_is_that_of_the_elements_that_matter(values, count):
    assert effective_count(torch.tensor(values)) == pytest.approx(count, rel=1e-3)


def cancelling_sum(scale):
    """A sum of 4,000 values that nearly cancel, and the same sum with an error of `scale` ulp of
    its terms."""
    task = FunctionTask(
        name="sum", get_inputs=lambda: [torch.randn(4000)], function=lambda x: [x.sum()]
    )
    inputs = task.inputs(3, "plain", CPU)
    answer = task.expected(inputs, 3, CPU).outputs
    lucky = Expected(native=tuple(o.float() for o in answer.oracle), oracle=answer.oracle)
    off = lucky.native[0] + scale * torch.finfo(torch.float32).eps * 4000**0.5
    return task, inputs, lucky, off


def test_an_error_like_an_ulp_of_the_inputs_passes_where_the_reference_was_lucky():
    task, inputs, lucky, off = cancelling_sum(0.5)
    generous = tolerant(task, inputs, 3, lucky, RULES)
    assert len(generous.tolerated) == NUDGES
    assert compare([off], generous, "strict").mismatch is None


def test_an_error_far_above_rounding_does_not():
    task, inputs, lucky, off = cancelling_sum(500.0)
    assert compare([off], tolerant(task, inputs, 3, lucky, RULES), "strict").mismatch is not None


def normalized(x):
    """Batch statistics of values that hardly differ: rounding 1 + x costs a share of x."""
    y = torch.relu(x) * 0.5 + 1.0
    return [torch.nn.functional.batch_norm(y, None, None, training=True)]


def test_an_error_like_an_ulp_of_a_value_on_the_way_passes():
    task = FunctionTask(
        name="norm", get_inputs=lambda: [1e-3 * torch.randn(64, 4)], function=normalized
    )
    inputs = task.inputs(3, "plain", CPU)
    answer = task.expected(inputs, 3, CPU).outputs
    lucky = Expected(native=tuple(o.float() for o in answer.oracle), oracle=answer.oracle)
    generous = tolerant(task, inputs, 3, lucky, RULES)
    honest = normalized(inputs[0])
    assert compare(honest, lucky, "strict").mismatch is not None, "1 + x is rounded"
    assert compare(honest, generous, "strict").mismatch is None
    in_bfloat16 = normalized(inputs[0].bfloat16().float())
    assert compare(in_bfloat16, generous, "strict").mismatch is not None
