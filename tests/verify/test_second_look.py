"""The second look: what rounding alone does to an answer is allowed, and nothing more."""

import pytest
import torch

from kernelwright.programs.text import parse
from kernelwright.verify.compare import Expected, Precision, compare, effective_count
from kernelwright.verify.judging import Rules
from kernelwright.verify.program_task import program_task
from kernelwright.verify.rejection import WrongOutputs
from kernelwright.verify.second_look import NUDGES, look_again, tolerant
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


def program(body, *inputs):
    drawn = "".join(f"    x{i} = torch.randn({shape})\n" for i, shape in enumerate(inputs))
    names = ", ".join(f"x{i}" for i in range(len(inputs)))
    text = (
        f"def get_inputs():\n{drawn}    return [{names}]\n\n\ndef fused_operator({names}):\n{body}"
    )
    return program_task(parse(text))


def looked_again(task, inputs, outputs, rules=RULES):
    """The second look at outputs that the first one refuses."""
    expected = task.expected(inputs, 3, CPU).outputs
    comparison = compare(outputs, expected, rules.precision)
    assert comparison.mismatch is not None
    wrong = WrongOutputs(comparison.mismatch.code, comparison.mismatch.message, comparison.errors)
    return look_again(wrong, task, inputs, 3, outputs, expected, rules)


ABOVE = program(
    "    t0 = torch.exp(x0)\n    t1 = torch.gt(t0, x1)\n    return [t1]\n", "4000", "4000"
)


def nearly_tied(num):
    """Inputs of ABOVE of which the first `num` elements are two ulps from a tie; its answer."""
    x, y = torch.randn(4000), torch.rand(4000) - 3.0
    y[:num] = x[:num].exp() * (1 + 2.0**-22)
    return [x, y], (x.exp() > y,)


def flipped(answer, count, start=0):
    other = answer.clone()
    other[start : start + count] ^= True
    return other


def test_elements_that_rounding_decides_may_be_either():
    inputs, (answer,) = nearly_tied(60)
    assert looked_again(ABOVE, inputs, (flipped(answer, 60),)) is None


def test_one_element_that_rounding_does_not_decide_may_not():
    inputs, (answer,) = nearly_tied(60)
    with pytest.raises(WrongOutputs, match="1 of 4000"):
        looked_again(ABOVE, inputs, (flipped(flipped(answer, 60), 1, start=99),))


def test_what_inputs_decide_by_themselves_is_decided_for_everybody():
    task = program("    t0 = torch.gt(x0, x1)\n    return [t0]\n", "4000", "4000")
    x, y = torch.randn(4000), torch.randn(4000)
    y[:20] = x[:20]
    with pytest.raises(WrongOutputs, match="20 of 4000"):
        looked_again(task, [x, y], (x >= y,))


def test_what_a_type_holds_is_decided_for_everybody():
    task = program(
        "    t0 = torch.relu(x0)\n    t1 = torch.gt(t0, x1)\n    return [t1]\n", "4000", "4000"
    )
    x, y = torch.randn(4000).abs(), torch.randn(4000)
    y[:20] = x[:20]
    with pytest.raises(WrongOutputs, match="20 of 4000"):
        looked_again(task, [x, y], (x.relu() >= y,))


def test_an_output_of_which_rounding_decides_most_is_not_judged_by_the_rest():
    inputs, (answer,) = nearly_tied(3000)
    with pytest.raises(WrongOutputs):
        looked_again(ABOVE, inputs, (flipped(answer, 40),))


def test_more_than_a_few_elements_are_no_roundings():
    inputs, (answer,) = nearly_tied(400)
    with pytest.raises(WrongOutputs):
        looked_again(ABOVE, inputs, (flipped(answer, 400),))


def test_a_step_on_the_way_may_fall_on_either_side_and_nowhere_else():
    task = program(
        "    t0 = torch.exp(x0)\n    t1 = torch.floor(t0)\n    t2 = torch.mul(t1, x1)\n"
        "    return [t2]\n", "4000", "4000",
    )  # fmt: skip
    x, y = torch.randn(4000), torch.randn(4000)
    x[:20] = torch.log(torch.tensor(2.0))
    right = x.exp().floor() * y
    below = right.clone()
    below[:20] = y[:20] * torch.where(x[:20].exp() < 2, 2.0, 1.0)
    assert looked_again(task, [x, y], (below,)) is not None
    below[:20] = 1e6
    with pytest.raises(WrongOutputs):
        looked_again(task, [x, y], (below,))


def test_the_rule_of_kernelbench_knows_no_second_look():
    inputs, (answer,) = nearly_tied(60)
    rules = Rules(CPU, Precision.KERNELBENCH, "pure")
    with pytest.raises(WrongOutputs):
        looked_again(ABOVE, inputs, (flipped(answer, 60),), rules)
