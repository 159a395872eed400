"""Programs with other numbers and more results: still programs, and of the same types."""

import json
import random
from collections import Counter

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Ref
from kernelwright.programs.text import parse, to_text
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.synth.draws import Drawer, LevelGroup, ProgramSearch
from kernelwright.synth.loosened import FIXED, with_more_outputs, with_other_numbers
from kernelwright.synth.quality import refusal_unrun
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.tasks import TaskSampler

PROGRAMS = [parse(line["text"]) for line in benchmark_programs() if line["level"] > 1][::7]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_what_becomes_of_a_program_is_one_and_its_results_keep_their_types(program):
    rng = random.Random(3)
    numbers = with_other_numbers(program, rng)
    assert parse(to_text(numbers)) == numbers
    assert [call.op for call in numbers.calls] == [call.op for call in program.calls]
    assert [call.types for call in numbers.calls] == [call.types for call in program.calls]
    assert numbers.outputs == program.outputs
    more = with_more_outputs(program, rng)
    assert parse(to_text(more)) == more
    assert more.calls == program.calls
    assert 0 < len(more.outputs) - len(program.outputs) <= 3
    made = [name for call in more.calls for name in call.outputs]
    assert list(more.outputs) == [name for name in made if name in more.outputs]
    assert set(program.outputs) < set(more.outputs)


def test_numbers_differ_from_draw_to_draw_and_defaults_are_never_given():
    seen = Counter()
    for seed, program in enumerate(PROGRAMS * 3):
        for call in with_other_numbers(program, random.Random(seed)).calls:
            defaults = {param.name: param.default for param in call.operator.params}
            for name, value in call.args:
                if type(value) is float and name not in FIXED:
                    assert value != defaults[name]
                    seen[value] += 1
    assert len(seen) > 80


def test_numbers_that_decide_what_is_computed_stay():
    for program in PROGRAMS:
        for seed in range(3):
            calls = with_other_numbers(program, random.Random(seed)).calls
            for before, after in zip(program.calls, calls, strict=True):
                kept = [dict(call.args).get(name) for name in FIXED for call in (before, after)]
                assert kept[::2] == kept[1::2]


def normed(op, shape, results, **options):
    builder = Builder()
    x = builder.input(TensorType(shape))
    each = {name: builder.input(TensorType(shape[1:2])) for name in options.pop("vectors", ())}
    made = builder.call(op, input=x, **each, **options)
    return builder.program([made[i] for i in results])


def test_groups_of_a_norm_are_any_that_divide_the_channels():
    program = normed("group_norm", (4, 24, 6), [0], num_groups=4)
    seen = {
        with_other_numbers(program, random.Random(seed)).calls[0].arg("num_groups")
        for seed in range(200)
    }
    assert seen == {1, 2, 3, 4, 6, 8, 12, 24}


def test_a_group_of_a_norm_keeps_more_than_one_value():
    program = normed("group_norm", (1, 8, 1, 1), [0], num_groups=2)
    programs = [with_other_numbers(program, random.Random(seed)) for seed in range(100)]
    assert {program.calls[0].arg("num_groups") for program in programs} == {1, 2, 4}
    for program in programs:
        assert parse(to_text(program))  # PyTorch refuses groups of one value, and so does parse


def test_of_a_reshape_one_size_may_be_left_open():
    builder = Builder()
    (made,) = builder.call("reshape", input=builder.input(TensorType((4, 6))), shape=(2, 2, 6))
    program = builder.program([made])
    every = [with_other_numbers(program, random.Random(seed)) for seed in range(200)]
    assert {each.calls[0].arg("shape") for each in every} == {
        (2, 2, 6),
        (-1, 2, 6),
        (2, -1, 6),
        (2, 2, -1),
    }
    assert all(parse(to_text(each)) == each for each in every)


def test_statistics_that_a_norm_moves_on_are_returned_with_what_it_makes():
    vectors = ("weight", "bias", "running_mean", "running_var")
    given = {"training": True, "momentum": 0.1, "eps": 1e-5}
    program = normed("batch_norm_train", (8, 6, 5), [3], vectors=vectors, **given)
    more = with_more_outputs(program, random.Random(0))
    assert more.outputs == tuple(program.calls[0].outputs[i] for i in (0, 3, 4))


def clamped(low=-1.0, high=1.0):
    builder = Builder()
    x = builder.input(TensorType((8, 8)))
    (made,) = builder.call("clamp", input=x, min=low, max=high)
    return builder.program([made])


def test_bounds_stay_in_order():
    for seed in range(200):
        (call,) = with_other_numbers(clamped(0.5, 1.0), random.Random(seed)).calls
        assert 0 < call.arg("min") < call.arg("max")


def test_an_input_that_is_read_once_may_become_a_number():
    builder = Builder()
    x, y, z = (builder.input(TensorType((8, 8))) for _ in range(3))
    (t,) = builder.call("mul", input=x, other=y)
    (u,) = builder.call("add", input=t, other=z)
    (v,) = builder.call("sub", input=u, other=z)
    program = builder.program([v])
    found = Counter()
    for seed in range(60):
        made = with_other_numbers(program, random.Random(seed))
        mul, add, _ = made.calls
        assert add.arg("other") == Ref(made.inputs[-1].name), "what is read twice stays"
        number = mul.arg("other")
        found[type(number)] += 1
        assert len(made.inputs) == (3 if isinstance(number, Ref) else 2)
    assert found[float] > 15
    assert found[Ref] > 15


def test_an_input_that_decides_the_shape_or_the_type_stays_one():
    builder = Builder()
    x = builder.input(TensorType((8, 1)))
    y, z = builder.input(TensorType((8, 8))), builder.input(TensorType((8, 8), "float32"))
    (t,) = builder.call("mul", input=x, other=y)
    (h,) = builder.call("to_dtype", input=t, dtype="float16")
    (u,) = builder.call("add", input=h, other=z)
    program = builder.program([u])
    for seed in range(30):
        assert len(with_other_numbers(program, random.Random(seed)).inputs) == 3


def test_a_program_of_one_call_has_no_other_results():
    assert with_more_outputs(clamped(), random.Random(0)) == clamped()


def recipe(**shares):
    return DrawRecipe.of({"weights": "balanced", "quality": {"lint": False}, **shares})


def drawn(**shares):
    group = LevelGroup(name="level 2", level=2, num=20)
    drawer = Drawer(recipe(**shares), 5, (group,), TaskSampler)
    lines = [json.loads(drawer.draw(ProgramSearch(0, index)).line) for index in range(20)]
    return {(line["drawn"]["index"], line["drawn"]["attempt"]): line for line in lines}


@pytest.mark.slow
def test_shares_of_drawn_programs_are_loosened():
    plain, with_outputs = drawn(), drawn(outputs=1.0)
    assert drawn() == plain
    both = plain.keys() & with_outputs.keys()
    assert len(both) > 10
    for place in both:
        one, other = parse(plain[place]["text"]), parse(with_outputs[place]["text"])
        assert other.calls == one.calls
        assert len(other.outputs) > len(one.outputs)
        assert plain[place]["fingerprint"] != with_outputs[place]["fingerprint"]
        assert not with_outputs[place]["drawn"]["uniform"]
    some = drawn(outputs=0.5, numbers=0.5)
    assert 2 <= sum(some.get(place) == line for place, line in plain.items()) <= 18


@pytest.mark.slow
def test_other_numbers_are_checked_like_drawn_numbers():
    """A program whose new numbers leave the range of a type is refused as any other program."""
    for line in drawn(numbers=1.0, dtypes=["float16"]).values():
        assert refusal_unrun(parse(line["text"])) is None


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_shares_are_shares(share):
    with pytest.raises(UsageError, match="shares"):
        recipe(numbers=share)
