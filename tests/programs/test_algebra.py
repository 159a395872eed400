"""Every rewrite keeps the values, names itself, pays, and comes to an end."""

import contextlib
import random

import algebra_samples as samples
import pytest
import torch
from algebra_samples import REWRITTEN, UNTOUCHED
from drawing import programs
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_operators_in_text import SAMPLES, program_of

from kernelwright.programs.algebra.simplify import cost, simplified
from kernelwright.programs.algebra.table import RULES
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program, Ref
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.resizing.variants import shape_variants

BY_NAME = {rule.__name__: rule for rule in RULES}


def worst(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """Largest error on the scale of each answer."""
    pairs = zip(found, exact, strict=True)
    return max(
        float((a.double() - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs
    )


def is_same(ours: Program, theirs: Program, seed: int = 0) -> None:
    """Of the same interface, and equal in fp64."""
    assert ours.inputs == theirs.inputs
    assert [ours.type_of(n) for n in ours.outputs] == [theirs.type_of(n) for n in theirs.outputs]
    inputs = make_inputs(theirs, seed)
    exact = run(theirs, inputs, dtype=torch.float64)
    assert worst(run(ours, inputs, dtype=torch.float64), exact) < 1e-10


def agrees(ours: Program, theirs: Program) -> None:
    """The same, and in fp32 not much worse than the original."""
    is_same(ours, theirs)
    inputs = make_inputs(theirs, 0)
    exact = run(theirs, inputs, dtype=torch.float64)
    assert worst(run(ours, inputs), exact) <= 2 * worst(run(theirs, inputs), exact) + 3e-7


def ids(samples: list[tuple[str, Program]]) -> list[str]:
    return [f"{name}-{i}" for i, (name, _) in enumerate(samples)]


@pytest.mark.parametrize(("name", "program"), REWRITTEN, ids=ids(REWRITTEN))
def test_a_rule_rewrites_what_it_is_for(name, program):
    found = simplified(program, [BY_NAME[name]])
    assert found.rewrites == (name,)
    agrees(found.program, program)
    assert cost(found.program) < cost(program)
    assert simplified(found.program, [BY_NAME[name]]).rewrites == ()


@pytest.mark.parametrize(("name", "program"), UNTOUCHED, ids=ids(UNTOUCHED))
def test_a_rule_leaves_alone_what_only_looks_like_it(name, program):
    found = simplified(program, [BY_NAME[name]])
    assert found.rewrites == ()
    assert found.program == program


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_what_is_wanted_at_other_sizes_holds_there(seed):
    held = set()
    for name, program in REWRITTEN[seed % 2 :: 2]:
        found = simplified(program, [BY_NAME[name]], at_other_sizes=True)
        held.update(found.rewrites)
        for moved in shape_variants(program, 2, seed, max_flops=1 << 20):
            if [c.args for c in moved.calls] == [c.args for c in program.calls]:
                there = Program(moved.inputs, found.program.calls, found.program.outputs)
                inputs = make_inputs(moved, seed)
                exact = run(moved, inputs, dtype=torch.float64)
                assert worst(run(there, inputs, dtype=torch.float64), exact) < 1e-10
    assert {"sum_of_product", "folded_scale", "cancelled_shift"} <= held


def test_rules_that_spell_sizes_are_left_out_where_other_sizes_are_wanted():
    spelled = [
        program
        for name, program in REWRITTEN
        if name == "sum_of_convolution" and program.calls[0].op == "conv_transpose3d"
    ]
    assert spelled
    for program in spelled:
        assert simplified(program).rewrites
        assert simplified(program, at_other_sizes=True).program == program


def test_every_rule_has_both_kinds_of_samples():
    assert {name for name, _ in REWRITTEN} == {name for name, _ in UNTOUCHED} == BY_NAME.keys()


@settings(max_examples=60, deadline=None)
@given(programs(10))
def test_any_program_keeps_its_values_and_ends_simplified(program):
    found = simplified(program)
    inputs = make_inputs(program, 3)
    exact = run(program, inputs, dtype=torch.float64)
    for ours, theirs in zip(run(found.program, inputs, dtype=torch.float64), exact, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8, equal_nan=True)
    assert found.program.inputs == program.inputs
    assert simplified(found.program).rewrites == ()


def test_several_rules_work_together_and_are_named_once():
    """mean(relu(relu(x)) @ w * 1.0), over a dimension of one afterwards again."""

    def body(c, x, w):
        y = c.linear(input=c.relu(input=c.relu(input=x)), weight=w)
        y = c.mean(input=c.mul(input=y, other=1.0), dim=1, keepdim=True)
        return c.exp(input=c.logsumexp(input=y, dim=(1,)))

    original = samples.program(body, (64, 48), (96, 48))
    found = simplified(original)
    assert set(found.rewrites) == {
        "idle_activation", "neutral_number", "sum_of_product", "single_element",
    }  # fmt: skip
    agrees(found.program, original)
    assert not any(call.types[0].numel >= 64 * 96 for call in found.program.calls)


def test_calls_that_nothing_uses_are_dropped_and_named():
    def body(c, x):
        c.exp(input=x)
        return c.tanh(input=x)

    found = simplified(samples.program(body, (4, 5)))
    assert found.rewrites == ("unused_call",)
    assert [call.op for call in found.program.calls] == ["tanh"]


def test_a_result_never_becomes_memory_that_is_the_callers_or_anothers():
    doubled = samples.program(lambda c, x: c.dropout(input=x, training=False), (4, 5))
    assert simplified(doubled).program == doubled

    def body(c, x):
        y = c.exp(input=x)
        return y, c.mul(input=y, other=1.0)

    twice = samples.program(body, (4, 5))
    assert simplified(twice).program == twice


@st.composite
def convolutions(draw):
    """(program body, shapes): a convolution of one or two dimensions at any settings, and what is
    taken of its result."""
    spatial, groups = draw(st.integers(1, 2)), draw(st.sampled_from((1, 1, 2)))
    is_transposed = draw(st.booleans())

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(spatial))

    stride, dilation, taps = each(1, 3), each(1, 2), each(1, 4)
    padding = tuple(draw(st.integers(0, k - 1)) for k in taps)
    settings = {"stride": stride, "padding": padding, "groups": groups}
    if set(dilation) != {1}:
        settings["dilation"] = dilation
    added = tuple(
        draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)
    )
    op, weight = f"conv{spatial}d", (24 * groups, 2, *taps)
    if is_transposed:
        op, weight = f"conv_transpose{spatial}d", (2 * groups, 24, *taps)
        settings["output_padding"] = added
    sizes = tuple(draw(st.integers(8, 13)) for _ in range(spatial))
    taken = draw(st.sampled_from(("sum", "mean", "pool")))
    axes = draw(st.sets(st.integers(2, 1 + spatial), min_size=1))
    if draw(st.booleans()):
        axes.add(draw(st.integers(0, 1)))
    window = each(1, 3)

    def body(c, x, w, b):
        y = getattr(c, op)(input=x, weight=w, bias=b, **settings)
        y = c.sub(input=0.5, other=c.mul(input=y, other=2.0))
        if taken == "pool":
            pool = getattr(c, f"avg_pool{spatial}d")
            step = stride if is_transposed else window
            return pool(input=y, kernel_size=window, stride=step)
        return getattr(c, taken)(input=y, dim=tuple(sorted(axes)), keepdim=bool(axes & {0}))

    return body, ((2, 2 * groups, *sizes), weight, (24 * groups,))


@settings(max_examples=80, deadline=None)
@given(convolutions(), st.integers(0, 1 << 20))
def test_windows_are_summed_at_any_settings(case, seed):
    body, shapes = case
    try:
        original = samples.program(body, *shapes)
    except ValueError:
        assume(False)
    rules = [BY_NAME["sum_of_convolution"], BY_NAME["pool_of_convolution"]]
    found = simplified(original, rules)
    is_same(found.program, original, seed)


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.integers(0, 2), min_size=1),
    st.sampled_from(("sum", "mean")),
    st.sampled_from(((), (96,), (5, 1), (3, 1, 1), (3, 5, 96))),
    st.booleans(),
)
def test_sums_of_products_at_any_axes(axes, op, shift, is_linear):
    """Over what is added in between too, however it is broadcast."""

    def body(c, x, w, s):
        y = c.linear(input=x, weight=w) if is_linear else c.matmul(input=x, other=c.t(input=w))
        y = c.div(input=c.sub(input=s, other=y), other=3.0)
        return getattr(c, op)(input=y, dim=tuple(sorted(axes)))

    original = samples.program(body, (3, 5, 16), (96, 16), shift)
    found = simplified(original, [BY_NAME["sum_of_product"]])
    is_same(found.program, original)


FOLLOWING = [
    ("relu", {}),
    ("neg", {}),
    ("clamp", {"min": -0.5, "max": 0.5}),
    ("mul", {"other": 2.0}),
    ("div", {"other": 1}),
    ("add", {"other": 0}),
    ("sub", {"other": 3.0, "alpha": 2}),
    ("rsub", {"other": 1.5}),
    ("to_dtype", {"dtype": "float64"}),
    ("sum", {"dim": (-1,)}),
    ("mean", {"dim": (0,), "keepdim": True}),
    ("sum", {}),
    ("softmax", {"dim": -1}),
    ("amax", {"dim": (-1,), "keepdim": True}),
    ("flip", {"dims": (0,)}),
    ("transpose", {"dim0": 0, "dim1": -1}),
    ("unsqueeze", {"dim": 1}),
    ("squeeze", {}),
    ("avg_pool1d", {"kernel_size": 2, "stride": 2}),
    ("avg_pool2d", {"kernel_size": 2, "stride": 2}),
    ("max_pool2d", {"kernel_size": 1, "stride": 1}),
    ("adaptive_avg_pool2d", {"output_size": 1}),
    ("group_norm", {"num_groups": 1}),
    ("instance_norm", {}),
]
"""Calls that may follow any other, where its result suits them."""


def followed(program: Program, rng: random.Random, count: int) -> Program:
    """The program with `count` calls more behind its first result."""
    builder = Builder()
    for value in program.inputs:
        builder.input(value.type, value.init)
    for call in program.calls:
        builder.append(call.op, call.args, call.types)
    last = Ref(program.outputs[0])
    for _ in range(count):
        op, attributes = rng.choice(FOLLOWING)
        with contextlib.suppress(ValueError):
            [last] = builder.call(op, input=last, **attributes)
    return builder.program([last])


def test_no_operator_stands_in_the_way_of_a_rule():
    """Every operator's sample calls, with calls behind them."""
    rng, names = random.Random(1), set()
    for sample in rng.sample(SAMPLES, 250):
        made = program_of(sample)
        if "float" not in made.type_of(made.outputs[0]).dtype or sample.op.endswith("_like"):
            continue
        original = followed(made, rng, 4)
        found = simplified(original)
        names.update(found.rewrites)
        inputs = make_inputs(original, 2)
        results = []
        for program in (found.program, original):
            torch.manual_seed(0)
            results.append(run(program, inputs, dtype=torch.float64))
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7, equal_nan=True)
    assert len(names) >= 8


@pytest.mark.parametrize("op", ["sum", "mean"])
def test_sums_of_products_hold_at_other_sizes_too(op):
    """A candidate for a flat program runs at these."""

    def body(c, x, w, b):
        y = c.linear(input=x, weight=w, bias=b)
        y = getattr(c, op)(input=c.mul(input=y, other=0.5), dim=(1,), keepdim=True)
        return c.exp(input=c.max(input=y, dim=1)[0])

    found = simplified(samples.program(body, (64, 48), (96, 48), (96,)))
    assert set(found.rewrites) >= {"sum_of_product", "single_element"}
    other = samples.program(body, (33, 20), (7, 20), (7,))
    inputs = make_inputs(other, 0)
    results = [run(each, inputs, dtype=torch.float64) for each in (found.program, other)]
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-10)
