"""Pairs as expected are those of all skeletons, and tell rare ones from impossible ones."""

from collections import Counter
from random import Random

import pytest

from kernelwright.ops.forms.form import Form
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.skeletons.skeleton import Skeleton, Skeletons
from kernelwright.synth.space import usable_forms
from tools.sampler.every_skeleton import every_skeleton
from tools.sampler.expected import ExpectedPairs

OPERATORS = ("relu", "exp", "mul", "argmax", "sum", "softmax")


def usable() -> list[Form]:
    return usable_forms(DrawRecipe(operators=OPERATORS, dtypes=("float32",), max_rank=1))


def readings(skeleton: Skeleton) -> Counter[tuple[str, str]]:
    made = {value: call.op for call in skeleton.calls for value in call.results}
    read = [(value, call.op) for call in skeleton.calls for value in call.values]
    return Counter((made[value], op) for value, op in read if value in made)


def test_the_mean_over_all_skeletons_is_exact() -> None:
    skeletons, whole = list(every_skeleton(usable(), 3)), Counter[tuple[str, str]]()
    expected, drawn_from = ExpectedPairs(OPERATORS), Skeletons(usable())
    for skeleton in skeletons:
        whole.update(readings(skeleton))
        expected.add(skeleton, drawn_from)
    for pair in [(maker, reader) for maker in OPERATORS for reader in OPERATORS]:
        assert expected.readings(pair, len(skeletons)) == pytest.approx(whole[pair])
    assert whole["relu", "mul"]
    assert not whole["argmax", "softmax"]


def test_a_pair_that_few_skeletons_have_is_told_from_one_that_none_has() -> None:
    skeletons = Skeletons(usable(), weights={"exp": 1, "relu": 10**9, "mul": 10**9})
    expected, rng, drawn = ExpectedPairs(OPERATORS), Random(0), Counter[tuple[str, str]]()
    for _ in range(200):
        skeleton = skeletons.sample(2, rng)
        drawn.update(readings(skeleton))
        expected.add(skeleton, skeletons)
    assert not drawn["exp", "relu"]
    assert 0 < expected.readings(("exp", "relu"), 10**9) < 10
    assert expected.readings(("relu", "relu"), 10**9) > 10**6
    assert expected.readings(("argmax", "softmax"), 10**9) == 0
