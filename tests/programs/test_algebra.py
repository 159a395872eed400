"""Every rewrite keeps the values, names itself, pays, and comes to an end."""

import algebra_samples as samples
import pytest
import torch
from algebra_samples import REWRITTEN, UNTOUCHED
from drawing import programs
from hypothesis import given, settings

from kernelwright.programs.algebra.simplify import cost, simplified
from kernelwright.programs.algebra.table import RULES
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run

BY_NAME = {rule.__name__: rule for rule in RULES}


def worst(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """Largest error on the scale of each answer."""
    pairs = zip(found, exact, strict=True)
    return max(
        float((a.double() - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs
    )


def agrees(ours: Program, theirs: Program, seed: int = 0) -> None:
    """Of the same interface, equal in fp64, and in fp32 not much worse than the original."""
    assert ours.inputs == theirs.inputs
    assert [ours.type_of(n) for n in ours.outputs] == [theirs.type_of(n) for n in theirs.outputs]
    inputs = make_inputs(theirs, seed)
    exact = run(theirs, inputs, dtype=torch.float64)
    assert worst(run(ours, inputs, dtype=torch.float64), exact) < 1e-10
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
