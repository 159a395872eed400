"""Programs come out uniformly: all programs of small recipes by brute force, and a chi-square test.

What the sampler must be told apart from is drawn by the same stages, each spoilt in one place.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kernelwright.ops.forms.form import Menu
from kernelwright.synth.skeletons.weighted import Weighted
from tools.sampler.uniformity import SPACES, draws, goodness_of_fit, probabilities

DRAWS = 6
"""For each program there is."""
LIKELY = 1e-3
"""Fits that are less likely than this are taken for wrong; seeds are fixed."""


@pytest.fixture(scope="module", params=SPACES)
def space(request: pytest.FixtureRequest) -> Any:
    level, recipe = SPACES[request.param]
    return level, recipe, probabilities(recipe, level)


@pytest.mark.slow
def test_draws_agree_with_all_programs(space: Any) -> None:
    level, recipe, expected = space
    fit = goodness_of_fit(expected, draws(recipe, level, DRAWS * len(expected), seed=1))
    assert fit.strange == 0, fit
    assert fit.p > LIKELY, fit
    rare = sum(share * fit.draws < 10 for share in expected.values())
    assert fit.reached >= fit.programs - rare, fit


def test_probabilities_add_up(space: Any) -> None:
    assert sum(space[2].values()) == pytest.approx(1)


def step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call drawn alike, without a look at what can still follow: DRTriton's generator."""

    def draw(self: Weighted[Any], rng: Random) -> Any:
        totals = [0, *self._totals]
        return rng.choice([x for i, x in enumerate(self.items) if totals[i] < totals[i + 1]])

    monkeypatch.setattr(Weighted, "draw", draw)


def first_choice_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(self: Menu, rng: Random) -> Any:
        return self.values[0] if rng.random() < 0.6 else true(self, rng)

    true = Menu.draw
    monkeypatch.setattr(Menu, "draw", drawn)


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [step_by_step, first_choice_more_often])
def test_a_spoilt_sampler_is_told_apart(
    spoil: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    level, recipe = SPACES["pointwise"]
    expected = probabilities(recipe, level)
    spoil(monkeypatch)
    fit = goodness_of_fit(expected, draws(recipe, level, DRAWS * len(expected), seed=1))
    assert fit.p < 1e-9, fit


@pytest.mark.slow
def test_another_measure_is_told_apart() -> None:
    level, recipe = SPACES["pointwise"]
    expected = probabilities(recipe, level)
    other = replace(recipe, sizes=replace(recipe.sizes, measure="log"))
    fit = goodness_of_fit(expected, draws(other, level, DRAWS * len(expected), seed=1))
    assert fit.p < 1e-9, fit
