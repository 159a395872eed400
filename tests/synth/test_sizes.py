"""Sizes are drawn in proportion to the measure from all solutions, and from nothing else."""

from itertools import cycle

import numpy as np
import pytest
from enumerating import CASES, A, B, C, Case, draws, fit, weight

from kernelwright.synth.recipe import SizeLimits
from kernelwright.synth.sizes.draw import NoSizes, draw_sizes
from kernelwright.synth.sizes.equations import Contradiction, Equations
from kernelwright.synth.sizes.measure import Measure, Weights, evenly, weights


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "measure"), [*zip(CASES.values(), cycle(Measure), strict=False)], ids=CASES
)
def test_draws_fit_the_measure(case, measure):
    case = case.under(measure)
    assert fit(draws(case, 700), case.weights()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_solution_is_reached(case):
    expected = case.solutions()
    num = int(len(expected) * (np.log(len(expected)) + 5))  # P(one is missed) < 1%
    assert set(draws(case.under("uniform"), num)) == expected


def test_a_draw_that_ignores_the_measure_does_not_fit(monkeypatch):
    monkeypatch.setattr(Weights, "draw", lambda _, low, high, chance: evenly(low, high, chance))
    case = CASES["cat"]
    assert fit(draws(case, 400), case.weights()) < 1e-6


def test_what_is_not_accepted_is_drawn_again():
    case = Case(((A, B),), (), SizeLimits(low=1, high=9, elements=(4, 30), measure="uniform"))
    rng = np.random.default_rng(1)
    found = []
    for _ in range(600):
        drawn = draw_sizes(
            case.shapes, Equations(), case.limits, rng, accept=lambda v: v[A] > 2 * v[B]
        )
        assert 1 <= drawn.accepted <= drawn.proposals
        found.append((drawn.values[A], drawn.values[B]))
    assert fit(found, {(a, b): 1.0 for a, b in case.solutions() if a > 2 * b}) > 1e-3


def test_the_same_generator_gives_the_same_sizes():
    shapes = [(A, B), (B, C)]
    one, two = (
        [draw_sizes(shapes, Equations(), SizeLimits(low=1), rng).values for _ in range(5)]
        for rng in (np.random.default_rng(3), np.random.default_rng(3))
    )
    assert one == two


def test_what_plain_proposals_never_meet_is_found():
    """A share of about 1e-17 of all sizes of five axes."""
    shapes = [(A, B, C, A, B)]
    limits = SizeLimits(low=1, measure="uniform", elements=(1 << 10, 1 << 12))
    drawn = draw_sizes(shapes, Equations(), limits, np.random.default_rng(0))
    a, b, c = (drawn.values[v] for v in (A, B, C))
    assert 1 << 10 <= a * a * b * b * c <= 1 << 12


def test_constants_alone_need_no_draw():
    assert (
        draw_sizes([(2, 3)], Equations(), SizeLimits(low=1), np.random.default_rng(0)).values == {}
    )


def test_ranges_without_a_solution_are_a_contradiction():
    with pytest.raises(Contradiction):
        draw_sizes([(A * 8, B)], Equations(), SizeLimits(low=1, high=7), np.random.default_rng(0))


def test_sampling_gives_up_where_nothing_is_accepted():
    with pytest.raises(NoSizes, match="not accepted"):
        draw_sizes(
            [(A,)], Equations(), SizeLimits(low=1), np.random.default_rng(0), accept=lambda _: False
        )


@pytest.mark.parametrize("measure", Measure)
def test_the_weights_of_a_measure(measure):
    sizes = np.arange(1, 201)
    each = weights(measure, 200).between(sizes, sizes)
    assert each == pytest.approx([weight(measure, size) for size in range(1, 201)])
