"""The relaxation over cells holds every solution, and within it draws have the measure."""

from itertools import product
from math import prod

import numpy as np
import pytest
from enumerating import CASES, A, draws, fit

from kernelwright.ops.sizes import evaluate
from kernelwright.synth import cells, sizes
from kernelwright.synth.cells import Relaxation, conditions, cut, grid
from kernelwright.synth.equations import Contradiction, Equations
from kernelwright.synth.measure import Measure, weights
from kernelwright.synth.recipe import Sizes
from kernelwright.synth.system import System, system

RATIOS = (1.0, 1.5, 4.0, 100.0)


def solutions(asked: System) -> list[tuple[int, ...]]:
    """Values of the roots."""
    ranges = asked.ranges[: len(asked.roots)]
    every = product(*(range(low, high + 1) for low, high in ranges))
    return [values for values in every if asked.holds(values)]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_solution_is_left_out(case, ratio):
    asked = system(case.shapes, case.equations(), case.limits)
    cuts = [cut(*ends, ratio) for ends in asked.ranges[: len(asked.roots)]]
    found = np.array(solutions(asked))  # (solutions, roots)
    assert len(found) == len(case.solutions())
    places = [highs.searchsorted(found[:, root]) for root, (_, highs) in enumerate(cuts)]
    for scope, may_hold in conditions(asked):
        allowed = may_hold(grid(asked, scope, cuts))
        assert allowed[tuple(places[root] for root in scope)].all()


@pytest.mark.parametrize("max_entries", [1, 50, 10**6])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_draws_from_the_relaxation_fit_the_measure(case, max_entries, monkeypatch):
    monkeypatch.setattr(sizes, "_PLAIN", ())
    monkeypatch.setattr(sizes, "_RELAXED", ((max_entries, (64,) * 100),))
    assert fit(draws(case, 400), case.weights()) > 1e-3


def wholly_below(factors, _scale, _low, high):
    """Only the cells none of whose values is above."""
    return lambda cells: evaluate(prod(factors), cells).high <= high


def test_a_relaxation_that_leaves_solutions_out_does_not_fit(monkeypatch):
    monkeypatch.setattr(sizes, "_PLAIN", ())
    monkeypatch.setattr(sizes, "_RELAXED", ((50, (64,) * 100),))
    monkeypatch.setattr(cells, "_meets", wholly_below)
    case = CASES["cat"]
    assert fit(draws(case, 400), case.weights()) < 1e-6


def test_relaxations_without_weight_are_contradictions():
    asked = system([(A, A)], Equations(), Sizes(elements=(30, 34)))
    with pytest.raises(Contradiction):
        Relaxation(asked, weights(Measure.UNIFORM, 34), 10**6)
