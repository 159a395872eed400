"""The frozen sets: how they are drawn, and that what is shipped is that."""

import json
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files

import pytest

from kernelwright.cli.options import SetName
from kernelwright.core.errors import UsageError
from kernelwright.ops.registry import operators
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.text import parse, to_text
from kernelwright.synth.benchmark import (
    SETS,
    V1,
    V2,
    benchmark_fingerprints,
    benchmark_plan,
    benchmark_programs,
)
from kernelwright.synth.draws import Drawer, LevelGroup, ProgramSearch
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.space import usable_forms
from kernelwright.synth.tasks import TaskSampler

BY_SET = pytest.mark.parametrize("name", SETS)


@BY_SET
def test_the_plan_has_the_papers_layout(name):
    plan = benchmark_plan(name)
    levels = {group.level: group.num for group in plan.groups if group.operator is None}
    assert levels == {1: 100, 2: 100, 5: 100, 20: 100}
    singles = {group.operator: (group.level, group.num) for group in plan.groups if group.operator}
    assert singles == dict.fromkeys(plan.recipe.operators, (1, 2))


def returns_inner_values(line):
    """Whether a program returns values that a call before the last makes."""
    program = parse(line["text"])
    return not set(program.outputs) <= set(program.calls[-1].outputs)


@pytest.mark.slow
def test_the_second_set_has_what_the_first_lacks():
    first, second = (benchmark_programs(name) for name in SETS)
    assert not {line["fingerprint"] for line in first} & {line["fingerprint"] for line in second}
    later = {call["op"] for line in second for call in line["calls"]}
    assert len(later - {call["op"] for line in first for call in line["calls"]}) > 15
    assert not any(map(returns_inner_values, first))
    assert sum(map(returns_inner_values, second)) > 60
    assert benchmark_plan(V2).recipe.quality.own_sizes
    assert benchmark_plan(V2).avoid == benchmark_fingerprints([V1])


@pytest.mark.slow
def test_operators_that_are_added_later_are_not_drawn():
    recipe = benchmark_plan().recipe
    drawn = {form.op for form in usable_forms(recipe)}
    assert drawn <= set(recipe.operators)
    assert operators()["index"].name not in drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", ["level 1", "level 5", "softmax"])
def test_what_is_shipped_is_drawn_again_from_its_seed(name, shipped):
    plan = benchmark_plan(shipped.name)
    at = [group.name for group in plan.groups].index(name)
    drawer = Drawer(plan.recipe, plan.seed, plan.groups, TaskSampler)
    first = next(line for line in shipped.lines if line["drawn"]["group"] == name)
    assert drawer.draw(ProgramSearch(at, 0)).fingerprint == first["fingerprint"]


def test_an_operator_without_programs_is_given_up_and_a_level_is_an_error():
    recipe = DrawRecipe(operators=("zeros_like",), dtypes=("float32",))
    single = LevelGroup(name="zeros_like", level=1, num=1, operator="zeros_like", may_lack=True)
    drawer = Drawer(recipe, 0, [single, LevelGroup(name="level 1", level=1, num=1)], TaskSampler)
    found = drawer.draw(ProgramSearch(0, 0))
    assert found.fingerprint is None
    assert json.loads(found.line)["record"] == "given_up"
    with pytest.raises(UsageError):
        drawer.draw(ProgramSearch(1, 0))


@dataclass
class Shipped:
    name: str
    lines: list


@pytest.fixture(scope="module", params=SETS)
def shipped(request):
    return Shipped(request.param, benchmark_programs(request.param))


def test_what_is_shipped_has_that_layout_and_no_program_twice(shipped):
    plan = benchmark_plan(shipped.name)
    counts = Counter(line["drawn"]["group"] for line in shipped.lines)
    for group in plan.groups:
        num = counts[group.name]
        assert num == group.num or (group.may_lack and num < group.num)
    assert counts.keys() <= {group.name for group in plan.groups}
    assert len(benchmark_fingerprints([shipped.name])) == len(shipped.lines)


def test_every_operator_is_in_what_is_shipped_or_was_given_up(shipped):
    path = files("kernelwright.synth").joinpath(f"{shipped.name}.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    settled = Counter(line["drawn"]["group"] for line in lines if "drawn" in line)
    plan = benchmark_plan(shipped.name)
    assert settled == {group.name: group.num for group in plan.groups}
    called = {call["op"] for line in shipped.lines for call in line["calls"]}
    constant = {"zeros_like", "ones_like", "full_like", "isnan", "any", "arange", "full"}
    random = {"dropout", "rand_like", "randn_like"}
    without_forms = {"sort", "topk", "scatter", "scatter_value", "scatter_add", "index_put"}
    assert set(plan.recipe.operators) - called <= constant | random | without_forms


def test_texts_of_what_is_shipped_are_its_programs(shipped):
    for line in shipped.lines[::7]:
        program = parse(line["text"])
        assert to_text(program) == line["text"]
        assert fingerprint(program) == line["fingerprint"]
        assert [call.op for call in program.calls] == [call["op"] for call in line["calls"]]
        assert len(program.calls) == line["level"]


def test_the_names_of_sets_on_the_command_line_are_those_of_the_package():
    assert tuple(SetName) == SETS
