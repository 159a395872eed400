"""Programs that are no tasks are refused with the reason; those that are pass."""

import pytest

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init, Program
from kernelwright.synth.inputs import with_inits
from kernelwright.synth.quality import (
    Reason,
    Refusal,
    refusal,
    refusal_by_lint,
    refusal_by_ranges,
    refusal_by_run,
)
from kernelwright.synth.recipe import Quality

RULES = Quality()
Step = tuple[str, dict[str, object]]


def chain(*steps: Step | str, shape=(32, 64), dtype: str = "float32") -> Program:
    """Operators one after the other on one input; "x" among attributes is the first input again,
    "new" a further one."""
    builder = Builder()
    x = value = builder.input(TensorType(shape, dtype))
    for step in steps:
        op, given = step if isinstance(step, tuple) else (step, {})
        given = {
            name: x if v == "x" else builder.input(TensorType(shape, dtype)) if v == "new" else v
            for name, v in given.items()
        }
        first = "tensors" if op == "cat" else "input"
        value, *_ = builder.call(op, **{first: value, **given})
    return with_inits(builder.program([value]))


def reason(program: Program) -> Reason | None:
    found = refusal(program, RULES)
    return found and found.reason


def assert_refused(found: Refusal | None, why: Reason) -> None:
    assert found is not None
    assert found.reason is why


NORM = ("layer_norm", {"normalized_shape": (64,)})
ROW = {"dim": 1}

REFUSED = {
    "log of a normal value": (chain("tanh", "log"), Reason.DOMAIN),
    "square root of a normal value": (chain("sin", "sqrt"), Reason.DOMAIN),
    "division by a normal value": (
        chain("gelu", ("rsub", {"other": 1.0}), "reciprocal"), Reason.DOMAIN,
    ),
    "probabilities that are none": (
        chain("tanh", ("binary_cross_entropy", {"target": "new"})), Reason.DOMAIN,
    ),
    "log-probabilities that are none": (
        chain("exp", ("kl_div", {"target": "new"})), Reason.DOMAIN,
    ),
    "exponentials in float16": (chain("exp", "exp", "exp", dtype="float16"), Reason.MAGNITUDE),
    "powers of powers": (chain("square", "square", "square"), Reason.MAGNITUDE),
    "a product of many": (chain("tanh", ("prod", {"dim": 1})), Reason.NEAR_ZERO),
    "shares of many": (chain("tanh", ("softmax", ROW), shape=(4, 1 << 15)), Reason.NEAR_ZERO),
    "a sum in float16": (
        chain("sigmoid", ("sum", {"dim": 1}), shape=(4, 1 << 18), dtype="float16"),
        Reason.MAGNITUDE,
    ),
    "never NaN": (chain("sin", "isnan"), Reason.CONSTANT),
    "above every value": (chain("tanh", ("gt", {"other": 2.0})), Reason.CONSTANT),
    "zeros": (chain("sin", "zeros_like"), Reason.CONSTANT),
    "softmax of one": (chain("sin", ("softmax", {"dim": 1}), shape=(64, 1)), Reason.CONSTANT),
    "x - x": (chain(("sub", {"other": "x"})), Reason.NEAR_ZERO),
    "equal by chance": (chain("sin", ("eq", {"other": "new"})), Reason.CONSTANT),
    "any normal value is true": (chain("sin", ("logical_or", {"other": "new"})), Reason.DEGENERATE),
    "some of many are true": (chain("relu", ("any", {"dim": 1}), shape=(64, 512)), Reason.CONSTANT),
    "the largest of many truth values": (
        chain(("gt", {"other": 0.5}), ("amax", {"dim": 1}), shape=(64, 512)), Reason.CONSTANT,
    ),
    "index of one of many zeros": (chain("relu", ("argmin", {"dim": 1})), Reason.DEGENERATE),
    "the larger of two that are far apart": (
        chain("sigmoid", ("add", {"other": 8.0}), ("maximum", {"other": "new"})),
        Reason.DEGENERATE,
    ),
    "its own maximum": (chain(("maximum", {"other": "x"})), Reason.DEGENERATE),
    "ReLU of a sigmoid": (chain("sigmoid", "relu"), Reason.IDLE),
    "random numbers": (chain("sin", "dropout"), Reason.RANDOM),
}  # fmt: skip


@pytest.mark.parametrize(("program", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_task_is_refused(program, why):
    assert reason(program) is why


PASSES = {
    "log of shares": chain(("softmax", ROW), "log"),
    "square root of 1 + ReLU": chain("relu", ("add", {"other": 1.0}), "sqrt"),
    "division by 1 + an exponential": chain("exp", ("add", {"other": 1.0}), "reciprocal"),
    "cross-entropy of a sigmoid": chain("sigmoid", ("binary_cross_entropy", {"target": "new"})),
    "divergence of log-shares": chain(("log_softmax", ROW), ("kl_div", {"target": "new"})),
    "margins of signs": chain("sin", ("soft_margin_loss", {"target": "new"})),
    "a product near 1": chain(("prod", {"dim": 1})),
    "a norm in float16": chain("sin", NORM, "gelu", dtype="float16"),
    "a residual": chain("silu", NORM, ("add", {"other": "x"}), "tanh"),
    "a tangent": chain("tanh", "tan"),
    "both are positive": chain("relu", ("logical_and", {"other": "new"})),
    "whole numbers that are equal": chain("round", ("eq", {"other": "new"})),
}


@pytest.mark.parametrize("program", PASSES.values(), ids=PASSES)
def test_what_is_a_task_passes(program):
    assert refusal(program, RULES) is None


def test_whole_sums_stay_whole_where_the_linter_adds_up_a_part():
    builder = Builder()
    x = builder.input(TensorType((64, 64)))
    (positive,) = builder.call("gt", input=x, other=0.5)
    (count,) = builder.call("sum", input=positive, dim=1)
    program = builder.program(builder.call("bitwise_or", input=count, other=1))
    assert refusal(with_inits(program), RULES) is None


def test_twenty_operators_may_keep_their_size():
    steps: list[Step | str] = []
    for _ in range(5):
        steps += ["gelu", ("mul", {"other": "new"}), ("add", {"other": "x"}), NORM]
    program = chain(*steps)
    assert len(program.calls) == 20
    assert refusal(program, RULES) is None


def test_nothing_is_run_for_what_ranges_refuse(monkeypatch):
    monkeypatch.setattr("kernelwright.synth.quality.run", None)
    assert reason(REFUSED["log of a normal value"][0]) is Reason.DOMAIN


def test_every_check_can_be_left_out():
    everything = Quality(ranges=False, lint=False, avoid_benchmarks=False)
    assert not any(refusal(program, everything) for program, _ in REFUSED.values())
    by_run = Quality(ranges=False, avoid_benchmarks=False)
    found = refusal(REFUSED["log of a normal value"][0], by_run)
    assert_refused(found, Reason.NOT_FINITE)


def test_what_rounding_decides_is_refused():
    """(x + 2000) - 2000 in float16 keeps a few bits of x."""
    shifted = chain(("add", {"other": 2000.0}), ("sub", {"other": 2000.0}), "sin", dtype="float16")
    found = refusal_by_run(shifted)
    assert_refused(found, Reason.ILL_CONDITIONED)
    whole = chain(("add", {"other": 2000.0}), ("sub", {"other": 2000.0}), "sin")
    assert refusal_by_run(whole) is None


def test_an_output_that_ignores_an_input_is_refused():
    builder = Builder()
    x, y = (builder.input(TensorType((32, 64))) for _ in range(2))
    (t,) = builder.call("mul", input=y, other=1e-9)
    (t,) = builder.call("add", input=t, other=x)
    found = refusal_by_lint(builder.program(builder.call("tanh", input=t)))
    assert_refused(found, Reason.DEGENERATE)


def test_types_that_only_a_gpu_computes_are_looked_at_in_float32():
    pool = ("avg_pool3d", {"kernel_size": (2, 2, 2), "stride": (2, 2, 2)})
    program = chain("gelu", pool, "sin", shape=(2, 4, 8, 8, 8), dtype="bfloat16")
    with pytest.raises(NotImplementedError):
        refusal_by_run(program)
    assert refusal(program, RULES) is None


def test_a_program_that_pytorch_refuses_is_a_mistake_of_ours_and_says_so():
    builder = Builder()
    x, y = builder.input(TensorType((4, 8))), builder.input(TensorType((3, 3)))
    made = builder.append("matmul", (("input", x), ("other", y)), (TensorType((4, 3)),))
    assert_refused(refusal_by_run(builder.program(made)), Reason.FAILS)


@pytest.mark.parametrize(("op", "passes"), [("sign", True), ("tanh", False)])
def test_targets_that_are_results_must_be_signs(op, passes):
    builder = Builder()
    x, y = (builder.input(TensorType((32, 64))) for _ in range(2))
    (t,) = builder.call(op, input=y)
    made = builder.call("soft_margin_loss", input=x, target=t, reduction="none")
    found = refusal_by_ranges(with_inits(builder.program(made)))
    assert found is None if passes else found and found.reason is Reason.DOMAIN


def test_ranges_of_normal_inputs_are_those_of_their_draws():
    builder = Builder()
    x = builder.input(TensorType((8, 8)), Init("rand", 1.0, 2.0))
    assert refusal_by_ranges(builder.program(builder.call("log", input=x))) is None
    y = builder.input(TensorType((8, 8)), Init("randn", 1.0, 0.5))
    found = refusal_by_ranges(builder.program(builder.call("log", input=y)))
    assert_refused(found, Reason.DOMAIN)
