from collections import Counter
from random import Random

from enumerating import fit

from kernelwright.synth.skeletons.weighted import Weighted


def test_items_are_drawn_in_proportion():
    weights = {"a": 3, "b": 0, "c": 1, "d": 6}
    table, rng = Weighted(tuple(weights), weights.values()), Random(2)
    assert table.total == 10
    assert fit((table.draw(rng) for _ in range(5000)), {**weights, "b": 1e-9}) > 1e-3


def test_weights_of_any_size_are_exact():
    # A float has 53 bits: by floats the first item would never be drawn, or the last always.
    table, rng = Weighted("ab", [1 << 200, (1 << 200) + 1]), Random(2)
    assert 400 < Counter(table.draw(rng) for _ in range(1000))["a"] < 600
    assert table.total == (1 << 201) + 1


def test_without_items_the_total_is_0():
    assert Weighted((), ()).total == 0
