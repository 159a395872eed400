"""Every form against the operator's rule and PyTorch, over drawn choices and sizes."""

import random
from dataclasses import replace

import pytest
from drawing import Sizes, choose, disagreement, program

from kernelwright.core.seed import derive
from kernelwright.ops.forms.form import Kind, Space
from kernelwright.ops.forms.registry import EXCLUDED, forms, forms_of
from kernelwright.ops.registry import operators
from kernelwright.ops.sizes import Var

SPACE = Space()
WITH_FORMS = [op for op in operators().values() if op.name not in EXCLUDED]
DRAWS = 40
LARGEST = 50
"""Of the sizes drawn; windows fit into most of them."""


@pytest.fixture(scope="module")
def all_forms():
    return forms(SPACE)


@pytest.mark.parametrize("operator", WITH_FORMS, ids=lambda op: op.name)
def test_forms_say_what_the_rule_and_pytorch_say(operator):
    rng = random.Random(derive(0, operator.name))
    found, accepted = forms_of(operator, SPACE), 0
    for _ in range(DRAWS):
        form, sizes = rng.choice(found), Sizes(rng, LARGEST)
        try:
            arranged = form.arrange(choose(form, rng))
            made = program(form, arranged, sizes)
        except ValueError:
            continue
        accepted += 1
        assert not disagreement(form, arranged, sizes, made)
    assert accepted >= 0.75 * DRAWS


def test_a_form_with_another_result_is_found_out():
    add = next(f for f in forms_of(operators()["add"], SPACE) if f.results == (Kind(2, "float32"),))
    rng = random.Random(0)
    arranged, sizes = add.arrange(choose(add, rng)), Sizes(rng, LARGEST)
    made = program(add, arranged, sizes)
    assert not disagreement(add, arranged, sizes, made)
    wider = replace(arranged, results=((Var("other"), *arranged.results[0][1:]),))
    assert disagreement(add, wider, sizes, made)
    assert disagreement(replace(add, results=(Kind(2, "float16"),)), arranged, sizes, made)


def test_every_operator_has_a_form_that_a_program_can_start_with():
    for operator in WITH_FORMS:
        starts = [f for f in forms_of(operator, SPACE) if all(s.reads_inputs for s in f.slots)]
        assert starts, operator.name


def test_forms_are_few_enough_and_come_in_one_order(all_forms):
    assert len(all_forms) < 30_000
    again = forms(SPACE)
    assert [(f.op, f.slots, f.results) for f in all_forms] == [
        (f.op, f.slots, f.results) for f in again
    ]


def test_every_value_of_an_attribute_is_in_a_menu(all_forms):
    """Or is fixed, where it decides what results are."""
    offered = {
        (f.op, name, value) for f in all_forms for name, m in f.menus.items() for value in m.values
    }
    for operator in WITH_FORMS:
        for param in operator.params:
            missing = [v for v in param.domain if (operator.name, param.name, v) not in offered]
            assert not missing or param.name in ("keepdim", "dtype"), (operator.name, param.name)


def test_a_space_bounds_ranks_and_dtypes():
    space = Space(max_rank=2, floats=("bfloat16",))
    for form in forms(space):
        kinds = [*(slot.kind for slot in form.slots), form.results[0]]
        assert max(kind.rank for kind in kinds) <= 2
        assert not {kind.dtype for kind in kinds} & {"float16", "float32"}


def test_a_space_sets_menus():
    space = Space(menus={"relu": {}, "conv2d": {"kernel_size": ((4, 4),), "stride": ((3, 3),)}})
    for form in forms_of(operators()["conv2d"], space):
        assert form.menus["kernel_size"].values == ((4, 4),)
        assert form.menus["stride"].values == ((3, 3),)
