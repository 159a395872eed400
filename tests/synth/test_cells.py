"""The relaxation over cells holds every solution, and within it draws have the measure."""

from itertools import cycle, product
from math import prod

import numpy as np
import pytest
from enumerating import CASES, A, B, C, Case, D, any_size, draws, fit
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.ops.sizes import evaluate
from kernelwright.synth.recipe import SizeLimits
from kernelwright.synth.sizes import cells
from kernelwright.synth.sizes import draw as sizes
from kernelwright.synth.sizes.cells import Relaxation, conditions, cut, grid
from kernelwright.synth.sizes.equations import Contradiction, Equations
from kernelwright.synth.sizes.measure import Measure, weights
from kernelwright.synth.sizes.reading import read_system
from kernelwright.synth.sizes.system import System

RATIOS = (1.0, 1.5, 4.0, 100.0)


def solutions(asked: System) -> list[tuple[int, ...]]:
    """Values of the roots."""
    ranges = asked.ranges[: len(asked.roots)]
    every = product(*(range(low, high + 1) for low, high in ranges))
    return [values for values in every if asked.holds(values)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(any_size(1), any_size(1)), max_size=2),
    st.integers(1, 30),
    st.integers(0, 30),
    st.sampled_from(RATIOS),
)
def test_no_solution_of_any_system_is_left_out(pairs, low, more, ratio):
    limits = SizeLimits(low=1, high=6, elements=(low, low + more))
    check_nothing_is_left_out(Case(((A, B), (B, C, 2), (C, D)), tuple(pairs), limits), ratio)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_solution_is_left_out(case, ratio):
    check_nothing_is_left_out(case, ratio)


def check_nothing_is_left_out(case: Case, ratio: float) -> None:
    try:
        asked = read_system(case.shapes, case.equations(), case.limits, case.total)
    except Contradiction:
        assert not case.solutions()
        return
    cuts = [cut(*ends, ratio) for ends in asked.ranges[: len(asked.roots)]]
    found = np.array(solutions(asked), int).reshape(-1, len(asked.roots))
    assert len(found) == len(case.solutions())
    places = [highs.searchsorted(found[:, root]) for root, (_, highs) in enumerate(cuts)]
    for scope, may_hold in conditions(asked):
        allowed = may_hold(grid(asked, scope, cuts))
        assert allowed[tuple(places[root] for root in scope)].all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "max_entries"), [*zip(CASES.values(), cycle((1, 50, 10**6)), strict=False)], ids=CASES
)
def test_draws_from_the_relaxation_fit_the_measure(case, max_entries, monkeypatch):
    monkeypatch.setattr(sizes, "_PLAIN", ())
    monkeypatch.setattr(sizes, "_RELAXED", ((max_entries, (64,) * 100),))
    assert fit(draws(case, 250), case.weights()) > 1e-3


def wholly_below(factors, _scale, _low, high):
    """Only the cells none of whose values is above."""
    return lambda cells: evaluate(prod(factors), cells).high <= high


def test_a_relaxation_that_leaves_solutions_out_does_not_fit(monkeypatch):
    monkeypatch.setattr(sizes, "_PLAIN", ())
    monkeypatch.setattr(sizes, "_RELAXED", ((50, (64,) * 100),))
    monkeypatch.setattr(cells, "_meets", wholly_below)
    case = CASES["cat"]
    assert fit(draws(case, 250), case.weights()) < 1e-6


def test_relaxations_without_weight_are_contradictions():
    asked = read_system([(A, A)], Equations(), SizeLimits(low=1, elements=(30, 34)))
    with pytest.raises(Contradiction):
        Relaxation(asked, weights(Measure.UNIFORM, 34), 10**6)
