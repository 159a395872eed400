"""How many threads write: those that pay, found out beside the writing."""

import random

import pytest

from kernelwright.policy.threads import FIRST, LOOKS, MOST, Threads

FREE, BUSY = {4: 1.0, 1: 1.6}, {4: 9.0, 1: 1.7}
"""Seconds of a step by number of threads."""


def run(threads, costs, num_steps, noise=0.0, seed=0):
    """The numbers that were used."""
    rng, used = random.Random(seed), []
    for _ in range(num_steps):
        used.append(threads.next())
        threads.took(costs[used[-1]] * (1 + noise * rng.random()))
    return used


def test_where_cores_are_free_all_are_used_and_looks_get_rare():
    used = run(Threads(4), FREE, 4 * MOST)
    assert used[:FIRST] == [4] * FIRST
    assert 0 < used.count(1) <= LOOKS * 9
    assert used[-MOST:].count(1) <= LOOKS


def test_where_they_are_not_one_is_used_soon():
    threads = Threads(4)
    used = run(threads, BUSY, 200)
    assert used[: FIRST + LOOKS] == [4] * FIRST + [1] * LOOKS
    assert used[FIRST + LOOKS :].count(4) <= 4 * LOOKS
    assert run(threads, FREE, 4 * MOST)[-1] == 4, "and all again when the others are done"


def test_one_thread_has_no_other_number():
    assert set(run(Threads(1), {1: 1.0}, 100)) == {1}


@pytest.mark.parametrize("seed", range(5))
def test_times_that_scatter_do_not_sway_it(seed):
    used = run(Threads(4), FREE, 2000, noise=0.5, seed=seed)
    assert used.count(1) < 200
