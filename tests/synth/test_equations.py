"""Equations keep their solutions: each is one assignment of the roots."""

from itertools import product

import pytest
from enumerating import A, B, C, Case, D, Values, any_size
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelwright.ops.sizes import evaluate, variables
from kernelwright.synth.recipe import SizeLimits
from kernelwright.synth.sizes.equations import Contradiction, Equations

HIGH = 7


def rooted(case: Case) -> list[Values]:
    """The variables' values for every assignment of the roots that the equations allow."""
    try:
        equations = case.equations()
    except Contradiction:
        return []
    known = {v: equations.solved(v) for v in case.names} | dict(equations.bound())
    zeros = [equations.solved(zero) for zero in equations.residual]
    roots = list(dict.fromkeys(v for size in [*known.values(), *zeros] for v in variables(size)))
    ranges = {v: case.range_of(equations, v) for v in {*known, *roots}}
    found = []
    for values in product(*(ranges[root] for root in roots)):
        at = dict(zip(roots, values, strict=True)).__getitem__
        every = {v: evaluate(size, at) for v, size in known.items()}
        if all(value in ranges[v] for v, value in every.items()) and not any(
            evaluate(zero, at) for zero in zeros
        ):
            found.append(tuple(every[v] for v in case.names))
    return found


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(any_size(), any_size()), min_size=1, max_size=3))
@example([(3, B + C), (A, B // 2)])  # a quotient without a least value
def test_assignments_of_the_roots_are_the_solutions_one_to_one(pairs):
    case = Case((), tuple(pairs), SizeLimits(low=1, high=HIGH))
    assert sorted(rooted(case)) == sorted(case.solutions())


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
        ([(A * B, C * D), (A, C)], 2, 0),
    ],
    ids=str,
)
def test_what_can_be_solved_is_solved(pairs, num_roots, num_residual):
    case = Case((), tuple(pairs), SizeLimits(low=1))
    equations = case.equations()
    roots = {v for name in case.names for v in variables(equations.solved(name))}
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
