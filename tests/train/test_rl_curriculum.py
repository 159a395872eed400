"""Curricula: levels in proportion, programs by what they still teach, promotion, plain state."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.errors import UsageError
from kernelwright.train.rl.curriculum import Curriculum, CurriculumState, Name, Promotion
from kernelwright.train.rl.practice import Practice
from kernelwright.train.rl.recipe import CurriculumSettings as Settings
from kernelwright.train.rl.recipe import CurriculumStage, Mix

SIZES = {1: 40, 2: 100, 5: 30}
STAGES = (
    CurriculumStage(levels={"1": 1.0}),
    CurriculumStage(levels={"1": 1.0, "2": 3.0}, max_steps=3),
    CurriculumStage(levels={"1": 1.0, "2": 1.0, "5": 2.0}),
)


def make(mix=Mix.STAGES, stages=STAGES, sizes=SIZES, right_teaches=False, **more):
    return Curriculum(Settings(mix=mix, stages=stages, **more), sizes, right_teaches=right_teaches)


weights = st.floats(min_value=0.01, max_value=10.0)


@given(
    mix=st.dictionaries(st.sampled_from("125"), weights, min_size=1),
    number=st.integers(1, 60),
    seed=st.integers(0, 1000),
)
def test_levels_have_their_share_of_every_step(mix, number, seed):
    curriculum = make(stages=(CurriculumStage(levels=mix),))
    names = curriculum.draw(number, seed)
    counts, total = Counter(name.level for name in names), sum(mix.values())
    assert len(names) == number
    for level, weight in mix.items():
        share = number * weight / total
        assert int(share) <= counts[int(level)], "rounded down, the rest by chance"
    assert counts.keys() <= set(map(int, mix))
    for level in counts:
        of_level = [name for name in names if name.level == level]
        assert len(set(of_level)) == min(len(of_level), SIZES[level]), "none twice before all"
    assert names == curriculum.draw(number, seed)


def test_what_is_always_or_never_solved_is_drawn_less():
    curriculum = make(stages=(CurriculumStage(levels={"1": 1.0}),), dull_weight=0.2, visits=2)
    for number in range(20):
        for share in (1.0, 1.0) if number < 10 else (0.0, 0.0):
            curriculum.visited(Name(1, number), share)
    curriculum.visited(Name(1, 20), 1.0)  # once says little
    for share in (0.0, 0.5, 1.0, 0.5):
        curriculum.visited(Name(1, 21), share)
    drawn = Counter(name.number for seed in range(3000) for name in curriculum.draw(4, seed))
    dull = sum(drawn[number] for number in range(20)) / 20
    open_ones = sum(drawn[number] for number in range(20, 40)) / 20
    assert dull / open_ones == pytest.approx(0.2, rel=0.15)
    assert drawn[20] / open_ones == pytest.approx(1.0, rel=0.2)
    assert drawn[21] / open_ones == pytest.approx(1.0, rel=0.2)


def test_what_taught_again_is_drawn_as_others_again():
    curriculum = make(dull_weight=0.2, visits=2)
    name = Name(1, 0)
    for share in (1.0, 1.0):
        curriculum.visited(name, share)
    assert curriculum.weight(name) == 0.2
    curriculum.visited(name, 0.9)
    assert curriculum.weight(name) == 1.0


def test_what_is_always_solved_is_drawn_as_often_where_it_teaches_speed():
    curriculum = make(dull_weight=0.2, visits=1, right_teaches=True)
    curriculum.visited(Name(1, 0), 1.0)
    curriculum.visited(Name(1, 1), 0.0)
    assert (curriculum.weight(Name(1, 0)), curriculum.weight(Name(1, 1))) == (1.0, 0.2)


@settings(max_examples=50)
@given(st.sets(st.integers(0, 39), max_size=39), st.integers(0, 100))
def test_what_is_barred_is_never_drawn(barred, seed):
    curriculum = make(stages=(CurriculumStage(levels={"1": 1.0}),))
    for number in barred:
        curriculum.bar(Name(1, number))
    assert not {name.number for name in curriculum.draw(30, seed)} & barred


def test_a_level_that_is_barred_as_a_whole_is_told():
    curriculum = make(stages=(CurriculumStage(levels={"5": 1.0}),))
    for number in range(SIZES[5]):
        curriculum.bar(Name(5, number))
    with pytest.raises(UsageError, match="level 5"):
        curriculum.draw(1, 0)


def test_a_stage_ends_when_its_highest_level_is_solved_often_enough():
    curriculum = make(promote_at=0.5)
    assert curriculum.validated({1: 0.4, 2: 0.9}) is None
    assert curriculum.validated({1: 0.5}) == Promotion(0, 1, 0.5)
    assert curriculum.mix == {1: 0.25, 2: 0.75}
    assert curriculum.validated({1: 1.0, 2: 0.49}) is None
    assert curriculum.validated({1: 1.0, 2: 0.6}) == Promotion(1, 2, 0.6)
    assert curriculum.validated({5: 1.0}) is None, "there is no further stage"


def test_a_stage_ends_with_its_steps_too():
    curriculum = make()
    assert curriculum.stepped(1.0) is None
    curriculum.validated({1: 1.0})
    assert [curriculum.stepped(1.0) for _ in range(3)] == [None, None, Promotion(1, 2, None)]
    assert all(curriculum.stepped(1.0) is None for _ in range(5))


def test_a_stage_ends_with_its_minutes_too():
    curriculum = make(
        stages=(
            CurriculumStage(levels={"1": 1.0}, max_minutes=1.0),
            CurriculumStage(levels={"2": 1.0}),
        )
    )
    assert curriculum.stepped(59.0) is None
    assert curriculum.stepped(1.0) == Promotion(0, 1, None)
    assert curriculum.stepped(1e6) is None, "the last stage has no end"


def test_a_stage_is_passed_by_answers_in_training():
    curriculum = make(promote_at=0.5, promote_after=4)
    for number, solved in enumerate((0.25, 0.25, 0.5)):
        curriculum.visited(Name(1, number), solved)
        assert curriculum.stepped(1.0) is None, "too few programs"
    curriculum.visited(Name(1, 3), 0.5)
    assert curriculum.stepped(1.0) is None, "0.375 of the last four"
    curriculum.visited(Name(1, 4), 0.75)
    assert curriculum.stepped(1.0) == Promotion(0, 1, 0.5)
    assert curriculum.state.recent == [], "the next stage counts its own level"
    curriculum.visited(Name(1, 5), 1.0)
    assert curriculum.state.recent == [], "the highest level is asked about"


def test_draws_without_weights_are_epochs():
    curriculum = Curriculum(
        Settings(stages=(CurriculumStage(levels={"1": 1.0}),)), {1: 10}, is_even=True
    )
    for epoch in range(1, 4):
        for step in range(5):
            curriculum.draw(2, seed=10 * epoch + step)
        assert set(curriculum.state.draws.values()) == {epoch}
        assert len(curriculum.state.draws) == 10


@pytest.mark.parametrize("number", [7, 25])
def test_epochs_stay_even_where_a_step_has_more_places_than_programs_are_left(number):
    curriculum = Curriculum(
        Settings(stages=(CurriculumStage(levels={"1": 1.0}),)), {1: 10}, is_even=True
    )
    for step in range(10):
        curriculum.draw(number, seed=step)
    assert set(curriculum.state.draws.values()) == {number}


def test_a_program_in_place_of_a_benchmarks_task_counts_as_drawn():
    programs = SimpleNamespace(train={1: range(10)}, sizes={1: 10})
    recipe = SimpleNamespace(
        seed=1,
        curriculum=Settings(stages=(CurriculumStage(levels={"1": 1.0}),)),
        rollouts=SimpleNamespace(programs=3),
        objective=SimpleNamespace(right_teaches=False),
    )
    asker, pooled = SimpleNamespace(lock_wait_s=0.0), SimpleNamespace()
    practice = Practice(recipe, programs, asker, None, pooled)
    practice.question_of = lambda name, number: None if number < 4 else name
    asked = [name for step in range(4) for name in practice._questions(step)]
    assert set(Counter(asked).values()) == {2}, "six programs, in twelve places"
    draws = practice.curriculum.state.draws
    assert Counter(asked) == {name: draws[name] for name in draws if name.number > 3}


def test_a_fixed_mix_is_that_of_the_last_stage_throughout():
    curriculum = make(mix=Mix.FIXED)
    assert curriculum.mix == {1: 0.25, 2: 0.25, 5: 0.5}
    assert curriculum.validated({1: 1.0, 2: 1.0, 5: 1.0}) is None
    assert all(curriculum.stepped(1.0) is None for _ in range(5))


def test_without_stages_all_levels_are_alike():
    assert make(stages=()).mix == {1: 1 / 3, 2: 1 / 3, 5: 1 / 3}


@pytest.mark.parametrize("levels", [{}, {"7": 1.0}, {"1": -1.0}, {"1": 0.0}])
def test_stages_name_levels_that_there_are_programs_of(levels):
    with pytest.raises(UsageError, match="levels"):
        make(stages=(CurriculumStage(levels=levels),))


def test_its_state_is_plain_data():
    curriculum = make()
    curriculum.visited(Name(1, 3), 0.5)
    curriculum.bar(Name(2, 7))
    curriculum.validated({1: 1.0})
    curriculum.stepped(1.0)
    again = make()
    again.state = CurriculumState.from_json(json.loads(json.dumps(curriculum.state.to_json())))
    assert again.state == curriculum.state
    assert again.draw(20, 5) == curriculum.draw(20, 5)
