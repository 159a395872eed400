"""Spreads of results: every operator's stay in the range it is given; means and deviations are
near; domains are kept."""

import math
from dataclasses import replace

import pytest
import torch
from test_operators import SAMPLES, bind

from kernelwright.ops.operator import TensorType
from kernelwright.ops.ranges.functions import _erfinv
from kernelwright.ops.ranges.rule_inputs import RuleInputs
from kernelwright.ops.ranges.spread import (
    OutOfDomain,
    Spread,
    contract,
    extreme,
    image,
    mix,
    multiply,
    normal,
    total,
    uniform,
)
from kernelwright.ops.ranges.table import RULES
from kernelwright.ops.registry import operators
from kernelwright.programs.build import Builder
from kernelwright.programs.draws.initial import choose_inits
from kernelwright.programs.draws.ranges import call_spreads
from kernelwright.programs.program import Init, Program
from kernelwright.programs.reference import make_inputs, run


def test_every_operator_has_a_rule_and_no_rule_is_left_over():
    assert RULES.keys() == operators().keys()


def one_call(sample) -> Program:
    """The sample's call with inputs drawn within its domains."""
    _, bound = bind(sample)
    builder = Builder()

    def given(value):
        if isinstance(value, TensorType):
            return builder.input(value)
        return tuple(map(given, value)) if isinstance(value, tuple) else value

    values = {name: given(value) for name, value in bound.items()}
    program = builder.program(builder.call(sample.op, **values))
    return choose_inits(program, [""] * len(program.inputs), [None] * len(program.inputs))


def outside(program: Program, shrunk: float = 1.0) -> list[str]:
    """Results that a run has outside their ranges (made smaller by `shrunk`)."""
    found = []
    ((_, spreads),) = call_spreads(program)
    for seed in range(2):
        results = run(program, make_inputs(program, seed), torch.float64)
        for i, (result, v) in enumerate(zip(results, spreads, strict=True)):
            if result.numel():
                slack = 1e-5 * (1 + v.largest)
                low, high = shrunk * v.low - slack, shrunk * v.high + slack
                inside = low <= float(result.min()) and float(result.max()) <= high
                found += [] if inside else [f"result {i} of seed {seed}: {v}"]
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", sorted({operators()[s.op].family for s in SAMPLES}))
def test_what_pytorch_returns_lies_in_the_range(family):
    samples = [s for s in SAMPLES if operators()[s.op].family == family]
    assert not [f"{s}: {text}" for s in samples for text in outside(one_call(s))]


def test_ranges_that_were_too_small_would_be_noticed():
    samples = [s for s in SAMPLES if s.op in ("sigmoid", "matmul", "sum", "mse_loss")]
    assert sum(bool(outside(one_call(s), shrunk=0.05)) for s in samples) > 0.9 * len(samples)


WIDE = (256, 256)
MOMENTS = ("relu", "gelu", "silu", "tanh", "exp", "abs", "square", "softplus", "sigmoid", "sin")


@pytest.mark.parametrize("op", MOMENTS)
def test_means_and_deviations_of_functions_are_near(op):
    builder = Builder()
    x = builder.input(TensorType(WIDE), Init("randn", 0.3, 0.8))
    assert_near(builder.program(builder.call(op, input=x)))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("sum", {"dim": 1}), ("mean", {"dim": 0}), ("amax", {"dim": (1,)}), ("std", {"dim": 1}),
        ("var", {"dim": 1}), ("norm", {"dim": 1}), ("logsumexp", {"dim": 1}),
        ("softmax", {"dim": 1}), ("log_softmax", {"dim": 1}),
        ("layer_norm", {"normalized_shape": (256,)}),
    ],
)  # fmt: skip
def test_means_and_deviations_along_a_dimension_are_near(op, attributes):
    builder = Builder()
    x = builder.input(TensorType(WIDE), Init("randn", 0.3, 0.8))
    assert_near(builder.program(builder.call(op, input=x, **attributes)))


def test_products_of_matrices_have_the_size_predicted():
    builder = Builder()
    x = builder.input(TensorType(WIDE))
    w = builder.input(TensorType(WIDE), Init("rand", 0.0, 1.0))
    program = builder.program(builder.call("matmul", input=x, other=w))
    assert_near(program)
    (spread,) = next(call_spreads(program))[1]
    assert spread.high < 6 * 256 / 4  # bounds that are merely added up would be 1536


def assert_near(program: Program) -> None:
    ((_, (v, *_)),) = call_spreads(program)
    result = run(program, make_inputs(program, 0), torch.float64)[0]
    rms = float(result.square().mean().sqrt())
    assert v.rms == pytest.approx(rms, rel=0.25)
    assert v.mean == pytest.approx(float(result.mean()), abs=0.25 * rms)


def test_rows_that_share_what_was_added_do_not_cancel():
    """The sum of x + b over the rows grows with their number where b is one value a column."""
    builder = Builder()
    x, b = builder.input(TensorType(WIDE)), builder.input(TensorType((256,)))
    (t,) = builder.call("add", input=x, other=b)
    program = builder.program(builder.call("sum", input=t, dim=0))
    *_, (_, (v,)) = call_spreads(program)
    result = run(program, make_inputs(program, 0))[0]
    assert 0.5 < v.std / float(result.std()) < 2


@pytest.mark.parametrize(
    ("text", "v", "raises"),
    [
        ("log", normal(0, 1), True),
        ("log", uniform(0.1, 2), False),
        ("log", uniform(0, 2), True),
        ("sqrt", uniform(0, 2), False),
        ("sqrt", uniform(-0.1, 2), True),
        ("rsqrt", uniform(0, 2), True),
        ("tan", uniform(-1, 1), False),
        ("tan", normal(0, 1), True),
        ("log1p", uniform(-0.5, 2), False),
        ("log1p", uniform(-1.5, 2), True),
        ("reciprocal", normal(0, 1), True),
        ("reciprocal", uniform(-2, -1), False),
    ],
)
def test_functions_refuse_what_they_are_not_defined_for(text, v, raises):
    given = RuleInputs({"input": TensorType((4,))}, {"input": v}, (TensorType((4,)),))
    if raises:
        with pytest.raises(OutOfDomain):
            RULES[text](given)
    else:
        found = RULES[text](given)
        assert isinstance(found, Spread)
        assert -math.inf < found.low <= found.high < math.inf


def test_turns_inside_the_range_count():
    v = image(lambda x: x * x, uniform(-1, 2), 0.0)
    assert (v.low, v.high) == (0, 4)


def test_one_far_element_counts_in_a_short_sum():
    heavy = Spread(0.0, 400.0, 1.0, 2.0)
    assert total(heavy, 2).high > 400
    assert total(heavy, 10_000).high < 12_000


def test_fresh_signs_let_terms_cancel_that_do_not_by_themselves():
    shared = Spread(0.0, 2.0, 1.0, 0.5, independent=False)
    assert contract(shared, normal(0, 1), 10_000).std < 200
    assert contract(shared, uniform(0.5, 1.5), 10_000).std > 2000


def test_the_largest_of_many_grows_and_keeps_its_bound():
    few, many = extreme(normal(0, 1), 2, 1), extreme(normal(0, 1), 1_000_000, 1)
    assert few.mean == pytest.approx(0.564, rel=0.1)
    assert many.mean == pytest.approx(4.86, rel=0.05)
    assert extreme(normal(0, 1), 100, -1).mean == pytest.approx(-2.51, rel=0.05)


def test_mixtures_and_products_have_exact_moments():
    both = mix(normal(1, 1), normal(-1, 1))
    assert (both.mean, both.std) == (0, pytest.approx(math.sqrt(2)))
    product = multiply(normal(2, 1), normal(3, 2))
    assert product.std == pytest.approx(math.sqrt(1 * 4 + 4 * 4 + 9 * 1))


@pytest.mark.parametrize("near", [math.nextafter(1.0, 0.0), 1 - 1e-15])
def test_erfinv_close_to_its_ends_is_large_and_finite(near):
    """(x + 1) / 2 rounds to 1 there, where the normal quantile has no value."""
    for x in (near, -near):
        value = _erfinv(x)
        assert 5 < abs(value) < 30
        assert math.copysign(1.0, value) == math.copysign(1.0, x)


def spread_of(op: str, v: Spread) -> Spread:
    found = RULES[op](RuleInputs({"input": TensorType((4,))}, {"input": v}, (TensorType((4,)),)))
    assert isinstance(found, Spread)
    return found


@pytest.mark.parametrize("low", [-104.0, 0.5, 24.9, 102.0])
def test_the_sine_of_a_narrow_range_far_from_zero_lies_in_its_range(low):
    for op, function in (("sin", math.sin), ("cos", math.cos)):
        v = spread_of(op, uniform(low, low + 1))
        values = [function(low + i / 100) for i in range(101)]
        assert v.low <= min(values) <= max(values) <= v.high
        assert v.mean == pytest.approx(sum(values) / 101, abs=0.05)


def test_the_sine_of_a_wide_range_far_from_zero_has_a_mean_near_zero():
    assert spread_of("sin", uniform(100, 200)).mean == pytest.approx(0, abs=0.01)


def test_signs_are_whole_numbers_on_both_sides_of_zero():
    v = spread_of("sign", normal(1, 1))
    assert v.is_whole
    assert v.share_of_zeros == pytest.approx(0, abs=1e-9)
    assert v.mean == pytest.approx(0.683, abs=0.01)
    rectified = RULES["relu"](RuleInputs({}, {"input": normal(0, 1)}, ()))
    assert spread_of("sign", with_as_many_below(rectified)).share_of_zeros == pytest.approx(0.5)


def with_as_many_below(v: Spread) -> Spread:
    """The same share of zeros, and the other elements on both sides of 0."""
    return v._replace(low=-v.high, mean=0.0)


def weighted(op: str, samples: int, **attributes) -> Program:
    """A weighted loss; scores are log probabilities."""
    builder = Builder()
    x = builder.input(TensorType((samples, 5)), Init("rand", -3.0, -2.0))
    target = builder.input(TensorType((samples,), "int64"), Init("randint", 0, 5))
    weight = builder.input(TensorType((5,)), Init("rand", 0.1, 0.3))
    values = {"input": x, "target": target, "weight": weight, **attributes}
    return builder.program(builder.call(op, **values))


@pytest.mark.parametrize("samples", [1, 64])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [("nll_loss", {}), ("cross_entropy", {}), ("cross_entropy", {"label_smoothing": 0.3})],
)
def test_a_weighted_mean_is_divided_by_the_weights(op, attributes, samples):
    program = weighted(op, samples, **attributes)
    assert not outside(program)
    ((_, (v,)),) = call_spreads(program)
    results = [float(run(program, make_inputs(program, seed))[0]) for seed in range(20)]
    assert v.mean == pytest.approx(sum(results) / 20, rel=0.1)


def test_weights_whose_sum_may_be_zero_are_refused():
    program = weighted("nll_loss", 4)
    inputs = (*program.inputs[:2], replace(program.inputs[2], init=Init("randn")))
    with pytest.raises(OutOfDomain):
        list(call_spreads(replace(program, inputs=inputs)))
