"""How many pairs are taken, and which are judged."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.timing.pairs import (
    BATCH,
    MAX_PAIRS,
    USUAL_PAIRS,
    Pairs,
    drawn_from_thirds,
    take_pairs,
)


class World:
    """A clock, and pairs that take time on it."""

    def __init__(self, spread: float, pair_s: float = 0.001, ratio: float = 2.0) -> None:
        self.now_s, self.pair_s, self.spread, self.ratio = 0.0, pair_s, spread, ratio
        self.rng = random.Random(7)
        self.seen: list[tuple[int, bool]] = []

    def measure(self, number: int, is_judged: bool) -> tuple[float, float]:
        self.seen.append((number, is_judged))
        self.now_s += self.pair_s
        return self.ratio * self.rng.gauss(1, self.spread), self.rng.gauss(1, self.spread)

    def take(self, budget_s: float = 10.0, warmup: int = 3) -> Pairs:
        return take_pairs(self.measure, budget_s, warmup, now=lambda: self.now_s)


def test_warm_up_comes_first_and_is_not_counted():
    world = World(spread=0.001)
    pairs = world.take()
    assert [number for number, _ in world.seen[:4]] == [-3, -2, -1, 0]
    assert not any(judged for number, judged in world.seen if number < 0)
    assert len(pairs.reference_ms) == len(pairs.candidate_ms) == len(world.seen) - 3


def test_quiet_calls_are_few_and_noisy_ones_many():
    quiet, noisy = World(spread=0.001).take(), World(spread=0.2).take()
    assert len(quiet.candidate_ms) == USUAL_PAIRS
    assert len(noisy.candidate_ms) == MAX_PAIRS


def test_the_budget_bounds_the_pairs_but_one_batch_is_always_taken():
    assert len(World(spread=0.2, pair_s=1.0).take(budget_s=12.0).candidate_ms) == 10
    assert len(World(spread=0.2, pair_s=60.0).take(budget_s=12.0).candidate_ms) == BATCH


def test_the_interval_of_pairs_holds_the_ratio():
    low, high = World(spread=0.02, ratio=1.5).take().interval()
    assert 1.4 < low < 1.5 < high < 1.6


@settings(max_examples=200, deadline=None)
@given(st.integers(1, MAX_PAIRS // BATCH), st.randoms(use_true_random=False))
def test_each_third_has_a_judged_pair_whatever_is_drawn(num_batches, rng):
    num = BATCH * num_batches
    judged = drawn_from_thirds(0, BATCH, rng.randrange)
    judged |= drawn_from_thirds(BATCH, num, rng.randrange)
    for part in range(3):
        assert judged & set(range(part * num // 3, (part + 1) * num // 3))
    assert 3 <= len(judged) <= 6


def test_every_pair_may_be_the_judged_one():
    rng = random.Random(1)
    seen: set[int] = set()
    for _ in range(300):
        world = World(spread=0.001)
        take_pairs(world.measure, 10.0, 0, now=lambda: 0.0, draw=rng.randrange)
        seen |= {number for number, judged in world.seen if judged}
    assert seen == set(range(USUAL_PAIRS))


def test_half_a_pair_is_an_error():
    pairs = Pairs([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="both"):
        pairs.interval()
