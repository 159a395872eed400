"""Fragments: what is convex, what extraction and substitution keep, what enumeration finds."""

from itertools import combinations

import pytest
import torch
from drawing import programs
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder, canonical
from kernelwright.programs.fragments.fragment import (
    CallGraph,
    enumerate_fragments,
    extract,
    part_of,
)
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs, run


def diamond() -> Program:
    """t0 = relu(x); t1 = exp(t0); t2 = tanh(t0); t3 = t1 + t2"""
    builder = Builder()
    x = builder.input(TensorType((3, 4)))
    (top,) = builder.call("relu", input=x)
    (left,) = builder.call("exp", input=top)
    (right,) = builder.call("tanh", input=top)
    return builder.program(builder.call("add", input=left, other=right))


def test_a_part_keeps_the_names_of_the_whole():
    program = diamond()
    own = part_of(program, {2, 3})
    assert [value.name for value in own.inputs] == ["t0", "t1"]
    assert own.calls == program.calls[2:]
    assert canonical(own) == extract(program, {2, 3}).program


def test_a_part_is_titled_after_the_last_value_it_makes():
    builder = Builder()
    values, _ = builder.call("max", input=builder.input(TensorType((3, 4))), dim=0)
    (twice,) = builder.call("aten.add.Tensor", self=values, other=values)
    program = builder.program([twice])
    assert program.title(["t0"]) == "max_t0"
    assert program.title(["t1", "t0"]) == "max_t1"
    assert program.title(["t2", "t0"]) == "aten_add_Tensor_t2"


def reaches(program: Program, start: int) -> set[int]:
    """Calls that depend on call `start`, by definition."""
    users, found, pending = program.users(), set(), [start]
    while pending:
        for name in program.calls[pending.pop()].outputs:
            fresh = set(users[name]) - found
            found |= fresh
            pending.extend(fresh)
    return found


def brute_force(program: Program, max_calls: int) -> set[frozenset[int]]:
    number = len(program.calls)
    after = [reaches(program, i) for i in range(number)]
    found = set()
    for size in range(1, max_calls + 1):
        for part in map(frozenset, combinations(range(number), size)):
            convex = not any(
                b in after[a] and b not in part and c in after[b]
                for a in part for b in range(number) for c in part
            )  # fmt: skip
            edges = [(a, b) for a, b in combinations(sorted(part), 2) if feeds(program, a, b)]
            groups = {i: {i} for i in part}
            for a, b in edges:
                merged = groups[a] | groups[b]
                groups.update(dict.fromkeys(merged, merged))
            if convex and len(groups[min(part)]) == size:
                found.add(part)
    return found


def feeds(program: Program, a: int, b: int) -> bool:
    return bool(set(program.calls[a].outputs) & set(program.calls[b].refs()))


def same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    return all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(ours, theirs, strict=True)
    )


def test_a_diamond_without_one_side_is_not_convex():
    assert not CallGraph(diamond()).is_convex({0, 1, 3})
    assert CallGraph(diamond()).is_convex({0, 1, 2, 3})
    assert CallGraph(diamond()).is_convex({1, 2, 3})


def test_siblings_alone_are_not_connected():
    assert not CallGraph(diamond()).is_connected({1, 2})
    assert CallGraph(diamond()).is_connected({0, 1, 2})


def test_what_is_not_convex_cannot_be_taken_out():
    with pytest.raises(ValueError, match="not a convex part"):
        extract(diamond(), {0, 3})


@settings(max_examples=40, deadline=None)
@given(programs(max_steps=7), st.integers(1, 5))
def test_enumeration_finds_exactly_the_convex_connected_parts(program, max_calls):
    found = list(enumerate_fragments(program, max_calls))
    assert len(found) == len(set(found))
    assert set(found) == brute_force(program, max_calls)
    for part in found:
        assert CallGraph(program).is_convex(part)
        assert CallGraph(program).is_connected(part)


def test_enumeration_is_lazy():
    builder = Builder()
    values = [builder.input(TensorType((2,)))]
    for _ in range(200):
        values += builder.call("add", input=values[-1], other=values[0])
    parts = enumerate_fragments(builder.program([values[-1]]), 200)
    assert len({next(parts) for _ in range(100)}) == 100


@settings(max_examples=40, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_a_fragment_is_a_canonical_program_of_its_part(program, rng):
    part = rng.choice(list(enumerate_fragments(program, 4)))
    fragment = extract(program, part)
    assert sorted(c.op for c in fragment.program.calls) == sorted(program.calls[i].op for i in part)
    assert canonical(fragment.program) == fragment.program


@settings(max_examples=25, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_a_fragment_computes_what_its_part_computes_in_the_whole(program, rng):
    fragment = extract(program, rng.choice(list(enumerate_fragments(program, 4))))
    watched = Program(program.inputs, program.calls, (*fragment.inputs, *fragment.outputs))
    values = run(watched, make_inputs(program, seed=2))
    count = len(fragment.inputs)
    assert same(run(fragment.program, values[:count]), values[count:])


def test_inputs_inside_a_domain_are_drawn_from_it():
    builder = Builder()
    x = builder.input(TensorType((50,)))
    (square,) = builder.call("mul", input=x, other=x)
    program = builder.program(builder.call("log", input=square))
    (logarithm,) = make_inputs(extract(program, {1}).program, seed=0)
    assert logarithm.min() > 0
