"""The second look: what rounding alone does to an answer is allowed, and nothing more."""

import pytest
import torch

from kernelwright.core.verdict import Precision
from kernelwright.programs.text import parse
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import WrongOutputs
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import CPU, FunctionTask
from kernelwright.verify.values.compare import Expected, compare, effective_count
from kernelwright.verify.values.second_look import NUDGES, ReferenceCall, look_again, tolerant

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
    generous = tolerant(ReferenceCall(task, inputs, 3, lucky), RULES)
    assert len(generous.tolerated) == NUDGES
    assert compare([off], generous, "strict").mismatch is None


def test_an_error_far_above_rounding_does_not():
    task, inputs, lucky, off = cancelling_sum(500.0)
    assert (
        compare([off], tolerant(ReferenceCall(task, inputs, 3, lucky), RULES), "strict").mismatch
        is not None
    )


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
    generous = tolerant(ReferenceCall(task, inputs, 3, lucky), RULES)
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
    return look_again(wrong, outputs, ReferenceCall(task, inputs, 3, expected), rules)


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
    with pytest.raises(WrongOutputs, match=r"^the output: 61 of 4000"):
        looked_again(ABOVE, inputs, (flipped(flipped(answer, 60), 1, start=99),))


def test_what_inputs_decide_by_themselves_is_decided_for_everybody():
    task = program("    t0 = torch.gt(x0, x1)\n    return [t0]\n", "4000", "4000")
    x, y = torch.randn(4000), torch.randn(4000)
    y[:20] = x[:20]
    with pytest.raises(WrongOutputs, match=r"^the output: 20 of 4000"):
        looked_again(task, [x, y], (x >= y,))


def test_what_a_type_holds_is_decided_for_everybody():
    task = program(
        "    t0 = torch.relu(x0)\n    t1 = torch.gt(t0, x1)\n    return [t1]\n", "4000", "4000"
    )
    x, y = torch.randn(4000).abs(), torch.randn(4000)
    y[:20] = x[:20]
    with pytest.raises(WrongOutputs, match=r"^the output: 20 of 4000"):
        looked_again(task, [x, y], (x.relu() >= y,))


def test_an_output_of_which_rounding_decides_most_is_not_judged_by_the_rest():
    """Nor where the first rounding explains what is off, and has moved less than half."""
    inputs, (answer,) = nearly_tied(3000)
    for start in range(8):
        with pytest.raises(WrongOutputs):
            looked_again(ABOVE, inputs, (flipped(answer, 1, start),))


def test_more_than_a_few_elements_are_no_roundings():
    inputs, (answer,) = nearly_tied(400)
    with pytest.raises(WrongOutputs):
        looked_again(ABOVE, inputs, (flipped(answer, 400),))


STEP = program(
    "    t0 = torch.exp(x0)\n    t1 = torch.floor(t0)\n    t2 = torch.mul(t1, x1)\n"
    "    return [t2]\n",
    "4000",
    "4000",
)


@pytest.mark.parametrize(
    ("wrong", "is_right"),
    [
        (lambda y, other: y * other, True),
        (lambda y, _: torch.full_like(y, 1e6), False),
        (lambda y, other: y * (other + 2), False),
        (lambda y, _: y.flip(0), False),
    ],
    ids=["the other side", "far away", "beyond the step", "other elements"],
)
def test_a_step_on_the_way_may_fall_on_either_side_and_nowhere_else(wrong, is_right):
    x, y = torch.randn(4000), torch.randn(4000)
    x[:20] = torch.log(torch.tensor(2.0))
    output = x.exp().floor() * y
    output[:20] = wrong(y[:20], torch.where(x[:20].exp() < 2, 2.0, 1.0))
    if is_right:
        assert looked_again(STEP, [x, y], (output,)) is not None
        return
    with pytest.raises(WrongOutputs):
        looked_again(STEP, [x, y], (output,))


CEILED = (
    "    t0 = torch.ceil(x0)\n    t1 = torch.ceil(x1)\n    t2 = torch.mul(t0, 0.317)\n"
    "    t3 = torch.mul(t1, 0.317)\n    t4 = torch.gt(t2, t3)\n    return [t4]\n"
)
LARGEST = (
    "    t0 = torch.exp(x0)\n    t1 = torch.amax(t0, dim=(1,), keepdim=True)\n"
    "    t2 = torch.eq(t0, t1)\n    return [t2]\n"
)


def test_values_that_are_equal_by_the_same_computation_stay_so():
    """`>=` for `>`: no kernel rounds 0.317 times 3 in two ways."""
    task = program(CEILED, "4000", "4000")
    x, y = 64 * torch.randn(4000), 64 * torch.randn(4000)
    output = x.ceil() * 0.317 >= y.ceil() * 0.317
    assert 0 < (x.ceil() == y.ceil()).sum() < 80
    with pytest.raises(WrongOutputs):
        looked_again(task, [x, y], (output,))


@pytest.mark.parametrize("kind", ["program", "function"])
def test_a_mask_of_what_equals_its_own_maximum_is_not_all_false(kind):
    function = FunctionTask(
        name="mask",
        get_inputs=lambda: [torch.randn(40, 100)],
        function=lambda x: [x.exp() == x.exp().amax(1, keepdim=True)],
    )
    task = program(LARGEST, "40, 100") if kind == "program" else function
    inputs = task.inputs(3, "plain", CPU)
    with pytest.raises(WrongOutputs, match="40 of 4000"):
        looked_again(task, inputs, (torch.zeros(40, 100, dtype=torch.bool),))


def test_of_nearly_tied_indices_no_third_is_right():
    task = program(
        "    t0 = torch.exp(x0)\n    t1 = torch.argmax(t0, dim=1)\n    return [t1]\n", "200, 50"
    )
    x = torch.randn(200, 50).clamp(max=2.0)
    x[0, 7] = 3.0
    x[0, 9] = torch.nextafter(torch.tensor(3.0), torch.tensor(4.0))
    answer = x.exp().argmax(1)
    other = answer.clone()
    other[0] = 16 - answer[0]  # 7 for 9, or 9 for 7
    expected = task.expected([x], 3, CPU).outputs
    settled = int(answer[0]) == int(expected.oracle[0][0])
    if settled:
        assert looked_again(task, [x], (other,)) is None
    other[0] = 8
    with pytest.raises(WrongOutputs):
        looked_again(task, [x], (other,))


def test_where_an_index_is_computed_in_floats_nothing_is_moved():
    """Moved up, 9.999999 is 10, which is no index; on a GPU that ends the process."""
    picked = FunctionTask(
        name="picked",
        get_inputs=lambda: [torch.rand(4000), torch.randn(10)],
        function=lambda x, y: [y[(x * 9.999999).long()] > 0.0],
    )
    inputs = [torch.full((4000,), 1 - 2**-24), torch.randn(10)]
    (answer,) = picked.function(*inputs)
    with pytest.raises(WrongOutputs, match="1 of 4000"):
        looked_again(picked, inputs, (flipped(answer, 1),))


def test_where_rounding_decides_how_many_elements_there_are_nothing_is_moved():
    task = FunctionTask(
        name="some",
        get_inputs=lambda: [torch.randn(4000)],
        function=lambda x: [(lambda e: e[e > 1.0])(torch.exp(x))],
    )
    x = torch.randn(4000)
    x[:50] = 2e-7 * torch.randn(50).sign()
    (right,) = task.function(x)
    wrong = right.clone()
    wrong[0] *= 2
    with pytest.raises(WrongOutputs):
        looked_again(task, [x], (wrong,))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_cast_is_no_rounding_that_could_be_another(dtype):
    task = program(
        f"    t0 = torch.Tensor.to(x0, dtype=torch.{dtype})\n"
        f"    t1 = torch.Tensor.to(x1, dtype=torch.{dtype})\n"
        "    t2 = torch.gt(t0, t1)\n    return [t2]\n",
        "20000",
        "20000",
    )
    for _ in range(3):
        x, y = torch.randn(20000), torch.randn(20000)
        at = getattr(torch, dtype)
        y[:20] = x[:20].to(at).float()
        with pytest.raises(WrongOutputs):
            looked_again(task, [x, y], (x.to(at) >= y.to(at),))


def test_a_row_that_hardly_varies_may_be_off_as_sums_are():
    """All elements of it are equal, and their sum is rounded all the same."""
    task = FunctionTask(
        name="norm",
        get_inputs=lambda: [torch.randn(64, 77)],
        function=lambda x: [torch.nn.functional.layer_norm(x, (77,))],
    )
    x = torch.randn(64, 77)
    x[:40] = 0.3
    mean = x.sum(1, keepdim=True) / 77
    output = (x - mean) / ((x - mean).square().mean(1, keepdim=True) + 1e-5).sqrt()
    expected = task.expected([x], 3, CPU).outputs
    if compare((output,), expected, "strict").mismatch is not None:
        assert looked_again(task, [x], (output,)) is not None


def test_a_single_number_is_settled_or_nothing_is_judged():
    task = program("    t0 = torch.exp(x0)\n    t1 = torch.sum(t0)\n    return [t1]\n", "50")
    (x,) = task.inputs(3, "plain", CPU)
    asked = []
    object.__setattr__(task, "rounded_otherwise", lambda *_: asked.append(1))
    with pytest.raises(WrongOutputs):
        looked_again(task, [x], (x.exp().sum() * 2,))
    assert not asked


def test_an_overflow_under_one_rounding_allows_nothing():
    task = program("    t0 = torch.mul(x0, 1.1)\n    return [t0]\n", "4000, dtype=torch.float16")
    x = torch.randn(4000).half()
    x[0] = 59552.0  # 65507 is rounded down to the largest float16, or overflows
    with pytest.raises(WrongOutputs):
        looked_again(task, [x], ((x.float() * 1.11).half(),))


def test_the_rule_of_kernelbench_knows_no_second_look():
    inputs, (answer,) = nearly_tied(60)
    rules = Rules(CPU, Precision.KERNELBENCH, "pure")
    with pytest.raises(WrongOutputs):
        looked_again(ABOVE, inputs, (flipped(answer, 60),), rules)
