"""Figures of a benchmark, by their definitions."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core import scores
from kernelwright.core.scores import (
    fast_p,
    gap,
    geometric_mean,
    mcnemar,
    mean_share,
    pass_at_k,
)

RATIOS = st.floats(0.01, 100.0)
SPEEDUPS = st.lists(st.none() | RATIOS, min_size=1, max_size=30)


@given(SPEEDUPS, st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_fewer_tasks_are_faster_by_more(speedups, p, q):
    low, high = sorted((p, q))
    assert 1.0 >= fast_p(speedups, low) >= fast_p(speedups, high) >= 0.0


@given(SPEEDUPS)
def test_at_zero_it_is_the_share_of_correct_tasks(speedups):
    assert fast_p(speedups, 0.0) == sum(each is not None for each in speedups) / len(speedups)


def test_as_fast_is_not_faster():
    assert fast_p([1.0, 1.0001, None, 2.0], 1.0) == 0.5


def test_no_tasks_have_no_figures():
    with pytest.raises(ValueError, match="no tasks"):
        fast_p([], 1.0)
    with pytest.raises(ValueError, match="above 0"):
        geometric_mean([])
    with pytest.raises(ValueError, match="above 0"):
        geometric_mean([1.0, 0.0])


@given(st.lists(RATIOS, min_size=1, max_size=12))
def test_the_mean_is_that_of_the_logarithms_within_its_interval(ratios):
    mean = geometric_mean(ratios, "x")
    assert mean.value == pytest.approx(math.prod(ratios) ** (1 / len(ratios)))
    assert min(ratios) * 0.999 <= mean.low <= mean.high <= max(ratios) * 1.001
    assert mean.num == len(ratios)
    assert geometric_mean([1 / each for each in ratios]).value == pytest.approx(1 / mean.value)


def test_the_interval_is_the_same_every_time():
    assert geometric_mean([1.0, 2.0, 4.0], "a") == geometric_mean([1.0, 2.0, 4.0], "a")


@pytest.mark.parametrize(
    ("num", "correct", "k", "chance"),
    [(1, 0, 1, 0.0), (1, 1, 1, 1.0), (4, 1, 1, 0.25), (4, 1, 2, 0.5), (4, 2, 2, 5 / 6),
     (5, 2, 3, 0.9), (5, 3, 3, 1.0), (10, 0, 10, 0.0), (200, 10, 100, 0.9992290)],
)  # fmt: skip
def test_pass_at_k(num, correct, k, chance):
    assert pass_at_k(num, correct, k) == pytest.approx(chance, abs=1e-6)


@given(st.integers(1, 7), st.data())
def test_pass_at_k_counts_the_draws_with_a_correct_one(num, data):
    correct, k = data.draw(st.integers(0, num)), data.draw(st.integers(1, num))
    draws = list(itertools.combinations(range(num), k))
    hits = sum(any(i < correct for i in draw) for draw in draws)
    assert pass_at_k(num, correct, k) == pytest.approx(hits / len(draws))


@pytest.mark.parametrize(("num", "correct", "k"), [(2, 3, 1), (2, 1, 3), (2, -1, 1), (2, 1, 0)])
def test_impossible_counts_are_refused(num, correct, k):
    with pytest.raises(ValueError, match="samples"):
        pass_at_k(num, correct, k)


SHARES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40)


@given(SHARES)
def test_a_mean_share_lies_in_its_interval_which_has_a_width_at_the_ends_too(shares):
    found = mean_share(shares)
    assert 0.0 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1.0
    assert found.high - found.low > 0.0
    assert found.num == len(shares)


def test_wilsons_interval_is_the_published_one():
    found = mean_share([1.0] * 81 + [0.0] * 182)  # Newcombe 1998, 81 of 263
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)


def test_newcombes_interval_is_the_published_one():
    one, other = mean_share([1.0] * 56 + [0.0] * 14), mean_share([1.0] * 48 + [0.0] * 32)
    found = gap(one, other)  # Newcombe 1998, 56 of 70 against 48 of 80, method 10
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


@given(SHARES, SHARES)
def test_a_gap_turns_its_sign_with_its_sides(one, other):
    there, back = gap(mean_share(one), mean_share(other)), gap(mean_share(other), mean_share(one))
    assert there.value == -back.value
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_no_shares_have_no_mean():
    with pytest.raises(ValueError, match="no tasks"):
        mean_share([])


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [(0, 0, 1.0), (5, 5, 1.0), (0, 5, 2 / 32), (1, 5, 2 * 7 / 64), (10, 0, 2 / 1024)],
)
def test_mcnemars_test_by_hand(gained, lost, expected):
    assert mcnemar(gained, lost) == pytest.approx(expected)
    assert mcnemar(lost, gained) == mcnemar(gained, lost)


def test_means_of_many_tasks_are_drawn_in_parts_with_equal_results(monkeypatch):
    ratios = [1.0 + i % 7 for i in range(50)]
    whole = geometric_mean(ratios, "x")
    monkeypatch.setattr(scores, "MOST_DRAWN", 50 * 333)
    assert geometric_mean(ratios, "x") == whole
