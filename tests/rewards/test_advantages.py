"""Advantages and weights of a group, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.rewards.advantages import STD_FLOOR, centred, correct_weights, leave_one_out

groups = st.lists(st.none() | st.floats(-10, 10), min_size=1, max_size=12)


def test_by_hand():
    assert centred([1.0, 0.0, 0.0, 1.0], divides=False) == [0.5, -0.5, -0.5, 0.5]
    std = math.sqrt(1 / 3)  # of (1, 0, 0, 1), n - 1 in the denominator as torch.std has it
    assert centred([1.0, 0.0, 0.0, 1.0], divides=True)[0] == pytest.approx(0.5 / (std + STD_FLOOR))
    assert leave_one_out([3.0, 0.0, 0.0]) == pytest.approx([3.0, -1.5, -1.5])


def test_what_was_not_judged_is_no_member_of_its_group():
    assert centred([1.0, None, 0.0], divides=False) == [0.5, 0.0, -0.5]
    assert leave_one_out([1.0, None, 0.0]) == [1.0, 0.0, -1.0]
    assert centred([1.0, None], divides=True) == leave_one_out([1.0, None]) == [0.0, 0.0]


@given(groups, st.booleans())
def test_advantages_sum_to_nothing_and_keep_the_order(rewards, divides):
    found = centred(rewards, divides=divides)
    assert sum(found) == pytest.approx(0.0, abs=1e-6 * (1e4 if divides else 1))
    known = sorted((r, a) for r, a in zip(rewards, found, strict=True) if r is not None)
    if len(known) > 1:
        assert [a for _, a in known] == sorted(a for _, a in known)


def test_weights_of_correct_answers():
    doubled = math.log(2.0)  # twice as fast
    assert correct_weights([doubled, 0.0, None], temperature=1.0) == pytest.approx(
        [2 / 3, 1 / 3, 0]
    )
    # lambda 0.1: by the tenth power of the speed-up
    assert correct_weights([doubled, 0.0], temperature=0.1)[0] == pytest.approx(1024 / 1025)
    assert correct_weights([None, None], temperature=0.1) == [0.0, 0.0]


@given(groups, st.floats(0.05, 5))
def test_weights_sum_to_one_over_the_correct(speeds, temperature):
    found = correct_weights(speeds, temperature=temperature)
    assert all(weight == 0 for weight, s in zip(found, speeds, strict=True) if s is None)
    if any(s is not None for s in speeds):
        assert sum(found) == pytest.approx(1.0)
