"""Sound skeletons: those whose operators are given what they are defined for, as a rule."""

from random import Random

import pytest

from kernelwright.ops.forms.registry import EXCLUDED, forms_of
from kernelwright.ops.registry import operators
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.skeletons.skeleton import Skeletons
from kernelwright.synth.skeletons.sound import MOST, SoundSkeletons, is_constant
from kernelwright.synth.space import usable_forms
from tools.sampler.every_skeleton import every_skeleton

FORMS = [
    form
    for name in ("tanh", "exp", "log", "relu", "sqrt", "logical_not", "argmax")
    for form in forms_of(operators()[name], DrawRecipe(dtypes=("float32",), max_rank=1).space())
]


def chains(n):
    """Sound and other chains of n operators of one operand."""
    sound = SoundSkeletons(Skeletons(FORMS))
    found = {True: set(), False: set()}
    for skeleton in every_skeleton(FORMS, n):
        found[sound.has(skeleton)].add(" ".join(call.op for call in skeleton.calls))
    return found[True], found[False]


def test_what_an_operator_is_given_decides():
    sound, other = chains(2)
    assert {"exp log", "tanh exp", "relu sqrt", "relu logical_not", "log relu"} <= sound
    assert {"tanh log", "relu log", "tanh sqrt", "exp relu", "exp logical_not"} <= other
    assert "tanh logical_not" in other
    assert {"tanh", "exp", "log", "relu", "sqrt", "argmax"} <= chains(1)[0]


def test_what_is_further_back_decides_too():
    sound, _ = chains(3)
    assert {"exp log exp", "tanh exp log", "relu sqrt sqrt"} <= sound
    assert not {"tanh exp logical_not", "exp sqrt relu", "exp tanh relu"} & sound


def test_samples_are_sound_and_say_how_many_were_drawn():
    skeletons = Skeletons(FORMS)
    sound, rng, numbers = SoundSkeletons(skeletons), Random(1), []
    for _ in range(50):
        skeleton, number = sound.sample(4, rng)
        assert sound.has(skeleton)
        numbers.append(number)
    assert 1 < sum(numbers) / len(numbers) < 50


def test_where_none_is_sound_there_is_none():
    only = [form for form in FORMS if form.op == "log"]
    assert SoundSkeletons(Skeletons(only)).sample(3, Random(0)) == (None, MOST)


@pytest.fixture(scope="module")
def drawn():
    skeletons = Skeletons(usable_forms(DrawRecipe(max_rank=3)))
    rng = Random(3)
    return SoundSkeletons(skeletons), [
        skeletons.sample(n, rng) for n in (1, 5, 20) for _ in "12345"
    ]


@pytest.mark.slow
def test_plain_programs_are_wired_as_their_skeletons(drawn):
    sound, skeletons = drawn
    for skeleton in skeletons:
        program = sound.plain_program(skeleton)
        assert [call.op for call in program.calls] == [call.op for call in skeleton.calls]
        names = {}
        for made, call in zip(program.calls, skeleton.calls, strict=True):
            names |= dict(zip(call.results, made.outputs, strict=True))
            read = [names.setdefault(value, f"value{value}") for value in call.values]
            assert set(read) <= set(made.refs())
            kinds = [(t.rank, t.dtype) for t in made.types]
            assert kinds == [tuple(kind) for kind in call.pattern.results]
        assert program.outputs == program.calls[-1].outputs


def test_operators_that_return_one_number_are_left_out():
    space = DrawRecipe(dtypes=("float32",), max_rank=2).space()
    first = {
        name: forms_of(operator, space)[0]
        for name, operator in operators().items()
        if name not in EXCLUDED and forms_of(operator, space)
    }
    constant = {name for name, form in first.items() if is_constant(form)}
    assert constant == {"zeros_like", "ones_like", "full_like", "isnan"}
    usable = {form.op for form in usable_forms(DrawRecipe(dtypes=("float32",), max_rank=2))}
    assert not constant & usable
