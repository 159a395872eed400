"""Files of programs: the same bytes however they are made, resumed, and never a program twice."""

import json
from dataclasses import replace

import pytest
from fake_sampler import OPERATORS, FakeSample, FakeSampler

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.text import parse
from kernelwright.synth.draws import LevelGroup
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.run import FilePlan, synthesize

RECIPE = DrawRecipe(operators=OPERATORS)


def plan(num=12, levels=(1, 2), seed=0, recipe=None, **more):
    groups = tuple(LevelGroup(name=f"level {level}", level=level, num=num) for level in levels)
    return FilePlan(recipe=recipe or RECIPE, seed=seed, groups=groups, **more)


def programs(path):
    return [line for line in record.read(path) if line["record"] == "program"]


def test_the_file_is_the_same_for_any_number_of_processes(tmp_path):
    for workers in (1, 2):
        synthesize(plan(40), tmp_path / f"{workers}.jsonl", workers, make=FakeSampler)
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    assert len(programs(tmp_path / "1.jsonl")) == 80


def test_no_program_comes_twice_and_each_is_the_first_of_its_stream_that_is_new(tmp_path):
    out = tmp_path / "out.jsonl"
    tally = synthesize(plan(20, levels=(1,)), out, 1, make=FakeSampler)
    sampler, seen, refused = FakeSampler(RECIPE), set(), 0
    for index, line in enumerate(programs(out)):
        for attempt in range(line["drawn"]["attempt"]):
            sample = sampler.draw(1, 0, index, attempt)
            assert sample.program is None or sample.program in seen
        program = sampler.draw(1, 0, index, line["drawn"]["attempt"]).program
        assert parse(line["text"]) == program
        assert program not in seen
        seen.add(program)
        refused += sum(line["drawn"]["refused"].values())
        assert sum(line["drawn"]["refused"].values()) == line["drawn"]["attempt"]
        assert line["drawn"]["proposals"] == 2 * (line["drawn"]["attempt"] + 1)
    assert tally.refused["duplicate"] > 0 < tally.refused["domain"]
    assert tally.refused.total() == refused


def test_a_file_of_more_programs_begins_with_that_of_fewer(tmp_path):
    out = tmp_path / "out.jsonl"
    synthesize(plan(5), out, 1, make=FakeSampler)
    few = out.read_bytes()
    assert synthesize(plan(9), out, 1, make=FakeSampler).before == 10
    assert out.read_bytes().startswith(few)
    assert [line["drawn"]["index"] for line in programs(out)] == [i // 2 for i in range(18)]


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.97])
def test_a_run_that_was_cut_goes_on_to_the_same_bytes(tmp_path, kept):
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    synthesize(plan(), whole, 1, make=FakeSampler)
    cut.write_bytes(whole.read_bytes()[: int(kept * whole.stat().st_size)])
    synthesize(plan(), cut, 1, make=FakeSampler)
    assert cut.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (plan(seed=1), "seed = 0, not 1"),
        (plan(levels=(1, 3)), "groups"),
        (plan(recipe=replace(RECIPE, width=2)), "recipe.width = 3, not 2"),
        (plan(avoid=frozenset(["abc"])), "avoided.programs = 0, not 1"),
    ],
    ids=["seed", "levels", "recipe", "avoid"],
)
def test_a_run_begun_otherwise_is_refused_and_left_alone(tmp_path, other, named):
    out = tmp_path / "out.jsonl"
    synthesize(plan(), out, 1, make=FakeSampler)
    before = out.read_bytes()
    with pytest.raises(UsageError, match=named):
        synthesize(other, out, 1, make=FakeSampler)
    assert out.read_bytes() == before


def test_lines_that_are_not_what_comes_there_are_refused(tmp_path):
    out = tmp_path / "out.jsonl"
    synthesize(plan(), out, 1, make=FakeSampler)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join([*lines[:3], *lines[4:]]))
    with pytest.raises(UsageError, match=r"out.jsonl:4: expected program 1 of level 1"):
        synthesize(plan(), out, 1, make=FakeSampler)


def test_other_records_are_refused(tmp_path):
    out = tmp_path / "out.jsonl"
    record.append(out, [{"record": "run"}])
    with pytest.raises(UsageError, match="not programs"):
        synthesize(plan(), out, 1, make=FakeSampler)


def test_programs_to_avoid_are_drawn_again(tmp_path):
    synthesize(plan(8), tmp_path / "first.jsonl", 1, make=FakeSampler)
    avoid = frozenset(line["fingerprint"] for line in programs(tmp_path / "first.jsonl"))
    tally = synthesize(plan(8, avoid=avoid), tmp_path / "second.jsonl", 1, make=FakeSampler)
    assert tally.refused["avoided"] >= 16
    new = {line["fingerprint"] for line in programs(tmp_path / "second.jsonl")}
    assert len(new) == 16
    assert not new & avoid


class Narrow(FakeSampler):
    """Six programs a level-1 group can have."""

    NUM_SIZES = 2


def test_more_programs_than_there_are_is_an_error_that_says_so(tmp_path):
    groups = (LevelGroup(name="level 1", level=1, num=7, most_attempts=60),)
    with pytest.raises(UsageError, match=r"no program 6 in 60 attempts .*duplicate"):
        synthesize(FilePlan(recipe=RECIPE, seed=0, groups=groups), tmp_path / "o", 1, make=Narrow)


def test_a_group_that_may_lack_programs_says_what_became_of_them(tmp_path):
    groups = (
        LevelGroup(name="relu", level=1, num=3, operator="relu", most_attempts=60, may_lack=True),
        LevelGroup(name="tanh", level=1, num=1, operator="tanh"),
    )
    out = tmp_path / "out.jsonl"
    made = FilePlan(recipe=RECIPE, seed=0, groups=groups)
    tally = synthesize(made, out, 1, make=Narrow)
    assert (tally.drawn, tally.given_up) == (3, 1)
    kinds = [(line["record"], line["drawn"]["group"]) for line in list(record.read(out))[1:]]
    assert kinds == [
        ("program", "relu"), ("program", "tanh"), ("program", "relu"), ("given_up", "relu"),
    ]  # fmt: skip
    assert {line["calls"][0]["op"] for line in programs(out)} == {"relu", "tanh"}
    before = out.read_bytes()
    synthesize(made, out, 1, make=Narrow)
    assert out.read_bytes() == before


class Colliding:
    """What programs 0, 1 and 2 are first drawn as, they or others are drawn as later too."""

    def __init__(self, recipe):
        # (index, attempt) -> size
        self.first = {(0, 0): 1, (0, 1): 2, (1, 0): 2, (1, 1): 3, (2, 0): 2, (2, 1): 3}

    def draw(self, level, seed, index, attempt):
        builder = Builder()
        size = self.first.get((index, attempt), 10 + 10 * index + attempt)
        x = builder.input(TensorType((size,)))
        return FakeSample(builder.program(builder.call("relu", input=x)))


def test_programs_give_way_in_order_whatever_the_batch(tmp_path):
    """Settled one by one: 0 gives way to what is avoided and takes b, 1 takes c, 2 neither."""
    first = tmp_path / "first.jsonl"
    groups = (LevelGroup(name="level 1", level=1, num=1),)
    synthesize(FilePlan(recipe=RECIPE, seed=0, groups=groups), first, 1, make=Colliding)
    avoid = frozenset(line["fingerprint"] for line in programs(first))
    out = tmp_path / "out.jsonl"
    groups = (LevelGroup(name="level 1", level=1, num=12),)
    synthesize(FilePlan(recipe=RECIPE, seed=0, groups=groups, avoid=avoid), out, 1, make=Colliding)
    drawn = [line["drawn"]["attempt"] for line in programs(out)]
    assert drawn == [1, 1, 2, *[0] * 9]


def test_the_header_is_json_that_any_reader_takes_and_gives_the_recipe_back(tmp_path):
    out = tmp_path / "out.jsonl"
    synthesize(plan(1), out, 1, make=FakeSampler)

    def refuse(name):
        raise ValueError(name)

    header = json.loads(out.read_text().splitlines()[0], parse_constant=refuse)
    assert DrawRecipe.of(header["recipe"]) == RECIPE
    assert header["digest"] == RECIPE.digest()
