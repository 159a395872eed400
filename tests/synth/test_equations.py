"""Equations keep their solutions: each is one assignment of the roots."""

from itertools import product

import pytest
from enumerating import named, solutions
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ops.sizes import Size, Var, evaluate, variables
from kernelwright.synth.equations import Contradiction, Equations
from kernelwright.synth.recipe import Sizes

A, B, C, D = (Var(name) for name in "abcd")
HIGH = 7


def _sizes() -> st.SearchStrategy[Size]:
    grown = st.recursive(
        st.sampled_from([A, B, C, D]) | st.integers(1, 9),
        lambda size: st.one_of(
            st.builds(lambda x, y: x + y, size, size),
            st.builds(lambda x, k: x * k, size, st.integers(2, 3)),
            st.builds(lambda x, k: x - k, size, st.integers(1, 3)),
            st.builds(lambda x, k: x // k, size, st.integers(2, 3)),
            st.builds(lambda x, y: x * y, size, size),
        ),
        max_leaves=3,
    )
    return grown | st.sampled_from([A, B, C, D])


def rooted(pairs: list[tuple[Size, Size]]) -> list[tuple[int, ...]]:
    """Values of the named variables for every assignment of the roots that is allowed."""
    equations = Equations()
    unknown = named([], pairs)
    try:
        for a, b in pairs:
            equations.equate(a, b)
        equations.settle()
    except Contradiction:
        return []
    known = {v: equations.solved(v) for v in unknown} | dict(equations.bound())
    zeros = [equations.solved(zero) for zero in equations.residual]
    roots = list(dict.fromkeys(v for size in [*known.values(), *zeros] for v in variables(size)))
    ranges = {
        v: range(equations.remainders[v]) if v in equations.remainders else range(1, HIGH + 1)
        for v in {*known, *roots}
    }
    found = []
    for values in product(*(ranges[root] for root in roots)):
        assigned = dict(zip(roots, values, strict=True)).__getitem__
        all_values = {v: evaluate(size, assigned) for v, size in known.items()}
        if all(value in ranges[v] for v, value in all_values.items()) and not any(
            evaluate(zero, assigned) for zero in zeros
        ):
            found.append(tuple(all_values[v] for v in unknown))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_sizes(), _sizes()), min_size=1, max_size=3))
def test_assignments_of_the_roots_are_the_solutions_one_to_one(pairs):
    expected = [tuple(s.values()) for s in solutions([], pairs, Sizes(high=HIGH))]
    assert sorted(rooted(pairs)) == sorted(expected)


@pytest.mark.parametrize(
    ("pairs", "num_roots", "num_residual"),
    [
        ([(A, B), (B, C), (C, D)], 1, 0),
        ([(A, B), (D, 3), (B, D)], 0, 0),
        ([(A + B, C)], 2, 0),
        ([(A // 2, B // 2)], 2, 0),
        ([((A + 1) // 2 + 1, B), (B, C // 3)], 2, 0),
        ([(A * 2, B * 3)], 1, 0),
        ([(A * 2, B * 3 + 1)], 1, 0),
        ([(A * B, C)], 2, 0),
        ([(A * B, C * 8)], 2, 1),
        ([(A * B, C * D)], 4, 1),
        ([(A * B, C * D), (A, C)], 3, 1),
    ],
    ids=str,
)
def test_what_can_be_solved_is_solved(pairs, num_roots, num_residual):
    equations = Equations()
    for a, b in pairs:
        equations.equate(a, b)
    roots = {v for name in named([], pairs) for v in variables(equations.solved(name))}
    assert (len(roots), len(equations.residual)) == (num_roots, num_residual)


@pytest.mark.parametrize(
    ("given_pairs", "pair"),
    [
        ([(A, 1)], (A, 2)),
        ([], (A * 2, 7)),
        ([], (A, A + 1)),
        ([], (A * 2, B * 4 + 3)),
        ([(A, B)], (A, B + 2)),
    ],
    ids=str,
)
def test_contradictions_are_found(given_pairs, pair):
    equations = Equations()
    for a, b in given_pairs:
        equations.equate(a, b)
    with pytest.raises(Contradiction):
        equations.equate(*pair)
