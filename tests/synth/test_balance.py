"""Balanced weights make operators equally frequent."""

from collections import Counter
from random import Random

import pytest

from kernelwright.synth.balance import balanced_weights
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.skeletons.skeleton import Skeletons
from kernelwright.synth.space import usable_forms

RECIPE = DrawRecipe(operators=("relu", "sum", "add", "lerp"), dtypes=("float32",), max_rank=2)


def shares(weights: dict[str, int], level: int) -> Counter[str]:
    skeletons = Skeletons(usable_forms(RECIPE), weights=weights)
    rng = Random(5)
    return Counter(c.op for _ in range(2000) for c in skeletons.sample(level, rng).calls)


def test_operators_come_equally_often_under_balanced_weights() -> None:
    weights = balanced_weights(RECIPE, 3, rounds=6, draws=1500, seed=0, say=lambda _: None)
    found = shares(dict(weights), 3)
    assert max(found.values()) < 1.3 * min(found.values()), found
    uneven = shares({}, 3)
    assert max(uneven.values()) > 3 * min(uneven.values()), uneven


@pytest.mark.slow
def test_the_shipped_weights_know_every_operator() -> None:
    balanced = DrawRecipe.of({"weights": "balanced"})
    assert balanced.weights.keys() == {form.op for form in usable_forms(DrawRecipe())}
    assert all(weight >= 1 for weight in balanced.weights.values())


def test_there_are_no_other_weights_by_name() -> None:
    with pytest.raises(ValueError, match="balanced"):
        DrawRecipe.of({"weights": "even"})
