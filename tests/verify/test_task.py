"""Answers of a task: fresh inputs, redrawn parameters, the fp64 oracle, state."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.programs.draws.families import FAMILIES, apply
from kernelwright.programs.text import parse
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.oracle import cut_to_tf32, doubled, run_in_double, seeded
from kernelwright.verify.tasks.program_task import program_task
from kernelwright.verify.tasks.task import CPU, FunctionTask


def module_task(module, *inputs):
    return ModuleTask(
        name="task", get_inputs=lambda: [make() for make in inputs], build=module, text=""
    )


def function_task(function, *shapes):
    return FunctionTask(
        name="task",
        get_inputs=lambda: [torch.randn(shape) for shape in shapes],
        function=function,
    )


def answer_of(task, seed=0, **options):
    return task.expected(task.inputs(seed, "plain", CPU), seed, CPU, **options)


def test_inputs_follow_the_seed_and_leave_the_generator_alone():
    task = function_task(torch.relu, (8,))
    before = torch.get_rng_state()
    first, same, other = (task.inputs(seed, "plain", CPU)[0] for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("family", FAMILIES)
def test_families_keep_dtype_strides_integers_and_sign(family):
    inputs = [torch.randn(6, 4).t(), torch.arange(5), torch.rand(9, dtype=torch.float16), 3]
    made = apply(family, inputs, 1)
    assert made[0].stride() == inputs[0].stride()
    assert made[2].dtype is torch.float16
    assert torch.equal(made[1], inputs[1])
    assert made[3] == 3
    assert family in ("negated", "special") or bool((made[2] >= 0).all())
    assert (family == "plain") == torch.equal(made[0], inputs[0])


def test_constant_parameters_and_statistics_are_redrawn_and_random_ones_kept():
    task = module_task(lambda: torch.nn.BatchNorm1d(16))
    state = task.state(CPU)
    for name in ("weight", "bias", "running_mean", "running_var"):
        assert state[name].unique().numel() > 8, name
    assert bool((state["running_var"] > 0.5).all())
    linear = module_task(lambda: torch.nn.Linear(4, 4))
    assert torch.equal(linear.state(CPU)["weight"], linear.as_constructed().state(CPU)["weight"])


def test_running_statistics_are_part_of_the_answer_and_start_afresh_each_time():
    task = module_task(lambda: torch.nn.BatchNorm1d(16), lambda: torch.randn(32, 16))
    first, again = answer_of(task), answer_of(task)
    assert first.state.keys() == {"running_mean", "running_var", "num_batches_tracked"}
    mean = first.state["running_mean"]
    assert torch.equal(mean.native[0], again.state["running_mean"].native[0])
    assert mean.oracle[0].dtype is torch.float64
    assert torch.allclose(mean.native[0].double(), mean.oracle[0], atol=1e-6)


@pytest.mark.parametrize("kind", [torch.nn.Dropout, torch.nn.AlphaDropout, torch.nn.Dropout1d])
def test_the_oracle_draws_the_masks_of_the_native_run(kind):
    task = module_task(lambda: kind(0.5), lambda: torch.rand(8, 64) + 1)
    answer = answer_of(task)
    assert torch.allclose(answer.outputs.native[0].double(), answer.outputs.oracle[0], rtol=1e-5)


DRAWS = {
    "rand": lambda x: x + torch.rand(8, 8),
    "randn_like": lambda x: x + torch.randn_like(x),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "normal": lambda x: torch.normal(x, 1.0),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "uniform": lambda x: x * torch.empty(8, 8).uniform_(1, 2),
}


@pytest.mark.parametrize("function", DRAWS.values(), ids=DRAWS)
def test_random_functions_draw_alike_in_double(function):
    outputs = answer_of(function_task(function, (8, 8))).outputs
    assert torch.allclose(outputs.native[0].double(), outputs.oracle[0], atol=1e-5)


CASTS = {
    "to_float": lambda x: (x * 3).to(torch.float32).exp(),
    "through_half": lambda x: x.half().exp(),
    "named_dtype": lambda x: torch.softmax(x, -1, dtype=torch.float32),
    "made_inside": lambda x: x @ torch.ones(8, 8),
    "made_with_dtype": lambda x: x @ torch.ones(8, 8, dtype=torch.float32),
}


@pytest.mark.parametrize("function", CASTS.values(), ids=CASTS)
def test_the_oracle_stays_double_where_code_names_a_dtype(function):
    task = function_task(function, (8, 8))
    inputs = task.inputs(0, "plain", CPU)
    oracle = task.expected(inputs, 0, CPU).outputs.oracle[0]
    assert oracle.dtype is torch.float64
    assert not torch.equal(oracle, oracle.float().double())


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_the_oracle_of_soft_margins_does_not_overflow(reduction):
    x, target = torch.tensor([[-3.0, 2.0, -1000.0]]), torch.tensor([[1.0, -1.0, 1.0]])

    def loss(x, target):
        return [F.soft_margin_loss(x, target, reduction=reduction)]

    (y,) = run_in_double(loss, [x, target], torch.float32)
    wanted = F.softplus(-target.double() * x.double())
    assert torch.allclose(y, wanted if reduction == "none" else getattr(wanted, reduction)())
    small = x.clamp(min=-3)
    (y,) = run_in_double(loss, [small, target], torch.float32)
    assert torch.allclose(y, *loss(small.double(), target.double()))


def test_running_in_double_puts_the_default_dtype_back():
    with pytest.raises(RuntimeError):
        run_in_double(lambda x: x @ torch.ones(3), [torch.ones(2)], torch.float32)
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize(
    "function",
    [torch.matmul, F.linear, lambda a, b: F.conv1d(a[None], b[:, :, None]), torch.bmm],
    ids=["matmul", "linear", "conv1d", "bmm"],
)
def test_tf32_costs_contractions_about_a_thousandth(function):
    shape = (2, 16, 16) if function is torch.bmm else (16, 16)
    outputs = answer_of(function_task(function, shape, shape), tf32=True).outputs
    error = (outputs.tolerated[0][0] - outputs.oracle[0]).std() / outputs.oracle[0].std()
    assert 1e-4 < error < 2e-3


def test_tf32_costs_pointwise_code_nothing():
    outputs = answer_of(function_task(torch.exp, (8,)), tf32=True).outputs
    assert torch.equal(outputs.tolerated[0][0], outputs.oracle[0])


def test_cut_to_tf32_keeps_ten_bits():
    x = torch.tensor([1 + 2**-10, 1 + 2**-11, -3.0], dtype=torch.float64)
    assert cut_to_tf32(x).tolist() == [1 + 2**-10, 1.0, -3.0]


class Closing(nn.Module):
    """Its forward goes through a function that closes over a part of it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        linear = self.linear
        self.inner = lambda x: linear(x)

    def forward(self, x):
        return self.inner(x)


def test_functions_that_a_module_holds_follow_it_into_every_copy():
    task = module_task(Closing, lambda: torch.randn(4, 3))
    assert answer_of(task).outputs.oracle[0].dtype is torch.float64
    (x,), call = task.inputs(0, "plain", CPU), task.with_other_weights(1).reference(CPU)
    with torch.no_grad():
        assert torch.equal(call(x), call.linear(x))
        assert not torch.equal(call(x), task.reference(CPU)(x))


def test_inputs_that_the_reference_changes_or_returns_are_noted():
    answer = answer_of(function_task(lambda x, y: [y, x.add_(1).view(-1)], (4, 2), (3,)))
    assert answer.inputs.keys() == {0}
    assert answer.aliases == {(0, 1), (1, 0)}


def test_nudged_answers_move_by_an_ulp_of_the_input_and_one_of_the_result():
    task = function_task(lambda x: x * 0.1, (1000,))
    inputs = task.inputs(0, "plain", CPU)
    (moved,) = task.nudged(inputs, 0, CPU)
    exact = inputs[0].double() * 0.1
    share = ((moved - exact).abs() / exact.abs()).max()
    assert 2**-23 < share <= 2.51 * 2**-23  # an ulp each, and half of one for rounding


def test_nudging_leaves_what_the_type_holds():
    def picked(x):
        at = torch.arange(8, dtype=torch.float32).floor().long()
        return torch.arange(8.0)[at] * 0.5

    task = function_task(picked, (8,))
    (moved,) = task.nudged(task.inputs(0, "plain", CPU), 0, CPU)
    assert torch.equal(moved, torch.arange(8, dtype=torch.float64) * 0.5)


@pytest.mark.parametrize("moved", ["nudged", "rounded_otherwise"])
def test_probabilities_stay_probabilities(moved):
    """Where one is above 1, PyTorch raises; on a GPU that ends the process."""
    task = FunctionTask(
        name="loss",
        get_inputs=lambda: [torch.randn(1000) + 14, torch.randint(0, 2, (1000,)).float()],
        function=lambda x, y: [F.binary_cross_entropy(torch.sigmoid(x), y)],
    )
    inputs = task.inputs(0, "plain", CPU)
    (loss,) = getattr(task, moved)(inputs, 0, CPU)
    assert loss.isfinite()


def test_rounding_otherwise_leaves_inputs_and_what_follows_from_them_exactly():
    task = function_task(lambda x: [x.relu() * 2.0 > 1.0, x * 0.1], (1000,))
    inputs = task.inputs(0, "plain", CPU)
    decided, moved = task.rounded_otherwise(inputs, 0, CPU)
    exact = inputs[0].double() * 0.1
    share = ((moved - exact).abs() / exact.abs()).max()
    assert torch.equal(decided, inputs[0].relu() * 2.0 > 1.0)
    assert 4 * 2**-23 < share <= 8.5 * 2**-23
    (_, other) = task.rounded_otherwise(inputs, 0, CPU, number=1)
    assert not torch.equal(moved, other)


def test_a_program_rounds_otherwise_in_the_types_of_its_values():
    program = parse(
        "def get_inputs():\n    return [torch.randn(1000, dtype=torch.bfloat16)]\n\n\n"
        "def fused_operator(x0):\n    t0 = torch.exp(x0)\n    t1 = torch.neg(t0)\n"
        "    return [t0, t1]\n"
    )
    task = program_task(program)
    inputs = task.inputs(0, "plain", CPU)
    there, back = task.rounded_otherwise(inputs, 0, CPU)
    share = ((there - inputs[0].double().exp()).abs() / inputs[0].double().exp()).max()
    assert 2**-8 < share <= 1.6 * 2**-7
    assert torch.equal(there, there.bfloat16().double())
    assert torch.equal(back, -there), "what is rounded already moves no more"


def test_equal_values_move_alike():
    task = function_task(lambda x: [(x * 0.1).sort().values, x.sort().values * 0.1], (1000,))
    inputs = task.inputs(0, "plain", CPU)
    assert torch.equal(*task.rounded_otherwise(inputs, 0, CPU))


def test_an_answer_that_overflows_everywhere_says_nothing():
    grown = function_task(lambda x: [x.exp()], (4,))
    assert grown.expected([torch.tensor([1.0, 2.0, 3.0, 90.0])], 0, CPU).is_finite
    assert not grown.expected([torch.full((4,), 90.0)], 0, CPU).is_finite
    assert not grown.expected([torch.full((4,), 900.0)], 0, CPU).is_finite


def test_an_answer_of_which_one_output_overflows_says_something_by_the_others():
    both = function_task(lambda x: [x.relu(), x.exp().sum()], (4,))
    assert both.expected([torch.full((4,), 90.0)], 0, CPU).is_finite


def test_doubling_leaves_integers_and_plain_values():
    a, b, c = doubled([torch.ones(1), torch.ones(1, dtype=torch.int32), "x"])
    assert (a.dtype, b.dtype, c) == (torch.float64, torch.int32, "x")


def test_seeded_puts_every_generator_back():
    import random

    before = random.getstate()
    with seeded(3, CPU):
        first = random.random()
    with seeded(3, CPU):
        assert random.random() == first
    assert random.getstate() == before


def test_the_oracle_reads_the_bits_of_the_native_dtype():
    def bits(x):
        return x.view(torch.int16), x.view(torch.int32).view(torch.float32)

    x = torch.randn(3, 4)
    ours = run_in_double(bits, [x], torch.float32)
    assert torch.equal(ours[0], bits(x)[0])
    assert torch.equal(ours[1], x.double())
