"""Every operator's forms against its rule and PyTorch, over drawn choices and sizes."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from drawn_forms import Sizes, choose, disagreement, program

from kernelwright.core.seed import derive
from kernelwright.ops.forms.form import Form, FormSpace, ValueKind
from kernelwright.ops.forms.registry import EXCLUDED, forms, forms_of
from kernelwright.ops.operator import Operator
from kernelwright.ops.registry import operators
from kernelwright.ops.sizes import Var

SPACE = FormSpace()
WITH_FORMS = [op for op in operators().values() if op.name not in EXCLUDED]
FLOAT32 = FormSpace(floats=("float32",))
UNSETTLED = ("batch_norm_train",)
"""Meta tensors, CPU and CUDA return 16-bit statistics in different dtypes; the rule says CUDA's."""
DRAWS = 15
TRIES = 30
"""For one call that is accepted; three of four are."""
LARGEST = 50
"""Of the sizes drawn; most windows fit."""
DECIDING = ("keepdim", "dtype", "training")
"""Attributes that decide what results are: forms fix them."""


@pytest.fixture(scope="module")
def all_forms() -> tuple[Form, ...]:
    return forms(SPACE)


def wanted(found: tuple[Form, ...], rng: random.Random) -> Iterator[tuple[Form, dict[str, Any]]]:
    """Forms, and the choices that are made already: each value of each menu once, then any."""
    offering: dict[tuple[str, Any], list[Form]] = {}
    for form in found:
        for name, menu in form.menus.items():
            for value in menu.values:
                offering.setdefault((name, value), []).append(form)
    for (name, value), some in offering.items():
        yield rng.choice(some), {name: value}
    for _ in range(DRAWS):
        yield rng.choice(found), {}


@pytest.mark.parametrize("operator", WITH_FORMS, ids=lambda op: op.name)
def test_forms_say_what_the_rule_and_pytorch_say(operator: Operator):
    rng = random.Random(derive(0, operator.name))
    draws = accepted = 0
    space = FLOAT32 if operator.name in UNSETTLED else SPACE
    for form, decided in wanted(forms_of(operator, space), rng):
        for _ in range(TRIES):
            draws += 1
            sizes = Sizes(rng, LARGEST)
            try:
                arranged = form.arrange(choose(form, rng) | decided)
                made = program(form, arranged, sizes)
            except ValueError:
                continue
            accepted += 1
            assert not disagreement(form, arranged, sizes, made)
            break
        else:
            pytest.fail(f"{form.op}({form.slots}) with {decided} is never accepted")
    assert accepted > 0.75 * draws


def test_another_result_is_found_out():
    add = next(
        f for f in forms_of(operators()["add"], SPACE) if f.results == (ValueKind(2, "float32"),)
    )
    rng = random.Random(0)
    arranged, sizes = add.arrange(choose(add, rng)), Sizes(rng, LARGEST)
    made = program(add, arranged, sizes)
    assert not disagreement(add, arranged, sizes, made)
    wider = replace(arranged, results=((Var("other"), *arranged.results[0][1:]),))
    assert disagreement(add, wider, sizes, made)
    assert disagreement(replace(add, results=(ValueKind(2, "float16"),)), arranged, sizes, made)


@pytest.mark.slow
def test_every_operator_has_a_form_that_a_program_can_start_with(all_forms):
    starting = {form.op for form in all_forms if all(slot.reads_inputs for slot in form.slots)}
    assert starting == {operator.name for operator in WITH_FORMS}


def test_no_operator_without_forms_has_some():
    without = {op.name for op in operators().values() if op.family in ("random", "creation")}
    anywhere = {"sort", "topk", "scatter", "scatter_value", "scatter_add", "index_put"}
    assert set(EXCLUDED) == without | anywhere


def test_forms_are_few_enough(all_forms):
    assert 10_000 < len(all_forms) < 30_000


def test_forms_come_in_one_order(all_forms):
    again = forms_of(operators()["where"], SPACE)
    first = [form for form in all_forms if form.op == "where"]
    assert [(f.slots, f.results, f.menus) for f in first] == [
        (f.slots, f.results, f.menus) for f in again
    ]


def test_every_value_of_every_attribute_is_offered(all_forms):
    offered = {
        (form.op, name, value)
        for form in all_forms
        for name, menu in form.menus.items()
        for value in menu.values
    }
    for operator in WITH_FORMS:
        for param in operator.params:
            for value in () if param.name in DECIDING else param.domain:
                assert (operator.name, param.name, value) in offered


def test_both_ranks_of_a_reduction_are_offered():
    sums = forms_of(operators()["sum"], FormSpace(max_rank=2))
    assert {form.results[0].rank for form in sums} == {
        0, 1, 2,
    }  # fmt: skip


def test_a_space_bounds_ranks_and_dtypes():
    for form in forms(FormSpace(max_rank=2, floats=("bfloat16",))):
        kinds = [*(slot.kind for slot in form.slots), form.results[0]]
        assert max(kind.rank for kind in kinds) <= 2
        assert not {kind.dtype for kind in kinds} & {"float16", "float32"}


def test_a_space_sets_menus():
    space = FormSpace(menus={"conv2d": {"kernel_size": ((4, 4),), "stride": ((3, 3),)}})
    for form in forms_of(operators()["conv2d"], space):
        assert form.menus["kernel_size"].values == ((4, 4),)
        assert form.menus["stride"].values == ((3, 3),)


def test_operands_broadcast_as_seldom_as_the_space_says():
    (form,) = (
        f
        for f in forms_of(operators()["maximum"], FormSpace(max_rank=1, broadcast=(5, 2)))
        if f.slots[0].kind == f.slots[1].kind == ValueKind(1, "float32")
    )
    menu = form.menus["broadcast0"]
    assert dict(zip(menu.values, menu.weights, strict=True)) == {
        (True, True): 10, (True, False): 2, (False, True): 2,
    }  # fmt: skip


def test_layers_keep_their_parameters_to_themselves(all_forms):
    for form in all_forms:
        for slot in form.slots:
            if slot.param in ("weight", "bias", "running_mean", "running_var", "index"):
                is_lerp = form.op == "lerp"
                assert slot.reads_results == is_lerp
                assert slot.reads_inputs or is_lerp
