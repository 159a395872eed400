"""The choice of disjoint fragments is exact, and what is chosen can be scheduled."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.ops.operator import TensorType
from kernelwright.programs.fragments import combine as combining
from kernelwright.programs.fragments.combine import Option, circular, combine, schedule
from kernelwright.programs.program import Call, Input, Program, Ref

VECTOR = TensorType((4,))


def chain(length: int) -> Program:
    """x0 -> relu -> relu -> ... of `length` calls."""
    calls = tuple(
        Call("relu", (("input", Ref(f"t{i - 1}" if i else "x0")),), (f"t{i}",), (VECTOR,))
        for i in range(length)
    )
    return Program((Input("x0", VECTOR),), calls, (f"t{length - 1}",))


def two_strands() -> Program:
    """Two independent chains x0 -> t0 -> t1 and x1 -> t2 -> t3."""
    links = [("x0", "t0"), ("t0", "t1"), ("x1", "t2"), ("t2", "t3")]
    calls = tuple(Call("relu", (("input", Ref(a)),), (b,), (VECTOR,)) for a, b in links)
    return Program((Input("x0", VECTOR), Input("x1", VECTOR)), calls, ("t1", "t3"))


LENGTH = 7
intervals = st.tuples(st.integers(0, LENGTH - 1), st.integers(1, 4)).map(
    lambda t: frozenset(range(t[0], min(t[0] + t[1], LENGTH)))
)


@given(st.lists(st.tuples(intervals, st.integers(-2, 9)), max_size=8))
def test_the_choice_equals_brute_force(pairs):
    options = [Option(calls, float(saving)) for calls, saving in pairs]
    chosen = combine(chain(LENGTH), options)
    best = 0.0
    for size in range(len(options) + 1):
        for picks in combinations(options, size):
            union = frozenset().union(*(p.calls for p in picks))
            if len(union) == sum(len(p.calls) for p in picks):
                best = max(best, sum(p.saving for p in picks))
    assert sum(options[i].saving for i in chosen) == best
    taken = [call for i in chosen for call in options[i].calls]
    assert len(taken) == len(set(taken))


def test_an_option_that_saves_nothing_is_never_taken():
    assert combine(chain(3), [Option(frozenset({0, 1}), 0.0), Option(frozenset({2}), -1.0)]) == []


def test_fragments_that_wait_for_each_other_are_not_chosen_together():
    program = two_strands()
    crossed = [frozenset({0, 3}), frozenset({1, 2})]  # each needs a result of the other
    assert circular(program, crossed) == [0, 1]
    with pytest.raises(ValueError, match="wait for each other"):
        schedule(program, crossed)
    assert combine(program, [Option(crossed[0], 2.0), Option(crossed[1], 1.0)]) == [0]


def test_a_schedule_holds_every_step_once_after_what_it_reads():
    program = chain(5)
    groups = [frozenset({1, 2})]
    assert schedule(program, groups) == [1 + 0, 0, 1 + 3, 1 + 4]


def test_ordering_the_steps_of_a_long_program_visits_each_call_once(monkeypatch):
    visited = []
    pop = combining.heappop
    monkeypatch.setattr(combining, "heappop", lambda heap: visited.append(pop(heap)) or visited[-1])
    assert schedule(chain(600), []) == list(range(600))
    assert len(visited) == 600
