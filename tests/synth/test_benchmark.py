"""synthetic-v1: how it is drawn, and that what is shipped is that."""

import json
from collections import Counter
from importlib.resources import files

import pytest

from kernelwright.core.errors import UsageError
from kernelwright.ops.registry import operators
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.text import parse, to_text
from kernelwright.synth.benchmark import benchmark_fingerprints, benchmark_plan, benchmark_programs
from kernelwright.synth.draws import Drawer, Group, Search
from kernelwright.synth.recipe import Recipe
from kernelwright.synth.space import usable_forms
from kernelwright.synth.tasks import TaskSampler


def test_the_plan_has_the_papers_layout():
    groups = benchmark_plan().groups
    levels = {group.level: group.num for group in groups if group.operator is None}
    assert levels == {1: 100, 2: 100, 5: 100, 20: 100}
    singles = {group.operator: (group.level, group.num) for group in groups if group.operator}
    assert singles == dict.fromkeys(benchmark_plan().recipe.operators, (1, 2))


def test_operators_that_are_added_later_are_not_drawn():
    recipe = benchmark_plan().recipe
    drawn = {form.op for form in usable_forms(recipe)}
    assert drawn <= set(recipe.operators)
    assert operators()["index"].name not in drawn


@pytest.mark.parametrize("name", ["level 1", "level 5", "softmax"])
def test_what_is_shipped_is_drawn_again_from_its_seed(name, shipped):
    plan = benchmark_plan()
    at = [group.name for group in plan.groups].index(name)
    drawer = Drawer(plan.recipe, plan.seed, plan.groups, TaskSampler)
    first = next(line for line in shipped if line["drawn"]["group"] == name)
    assert drawer.draw(Search(at, 0)).fingerprint == first["fingerprint"]


def test_an_operator_without_programs_is_given_up_and_a_level_is_an_error():
    recipe = Recipe(operators=("zeros_like",), dtypes=("float32",))
    single = Group(name="zeros_like", level=1, num=1, operator="zeros_like", may_lack=True)
    drawer = Drawer(recipe, 0, [single, Group(name="level 1", level=1, num=1)], TaskSampler)
    found = drawer.draw(Search(0, 0))
    assert found.fingerprint is None
    assert json.loads(found.line)["record"] == "given_up"
    with pytest.raises(UsageError):
        drawer.draw(Search(1, 0))


@pytest.fixture(scope="module")
def shipped():
    return benchmark_programs() or pytest.skip("synthetic-v1 is not frozen yet")


def test_what_is_shipped_has_that_layout_and_no_program_twice(shipped):
    plan = benchmark_plan()
    found = Counter(line["drawn"]["group"] for line in shipped)
    for group in plan.groups:
        assert found[group.name] == group.num or (group.may_lack and found[group.name] < group.num)
    assert found.keys() <= {group.name for group in plan.groups}
    assert len(benchmark_fingerprints()) == len(shipped)


def test_every_operator_is_in_what_is_shipped_or_was_given_up(shipped):
    path = files("kernelwright.synth").joinpath("synthetic-v1.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    settled = Counter(line["drawn"]["group"] for line in lines if "drawn" in line)
    assert settled == {group.name: group.num for group in benchmark_plan().groups}
    called = {call["op"] for line in shipped for call in line["calls"]}
    lacking = set(benchmark_plan().recipe.operators) - called
    constant = {"zeros_like", "ones_like", "full_like", "isnan", "any"}  # under our draws of inputs
    assert lacking <= constant


def test_texts_of_what_is_shipped_are_its_programs(shipped):
    for line in shipped[::7]:
        program = parse(line["text"])
        assert to_text(program) == line["text"]
        assert fingerprint(program) == line["fingerprint"]
        assert [call.op for call in program.calls] == [call["op"] for call in line["calls"]]
        assert len(program.calls) == line["level"]
