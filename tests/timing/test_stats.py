"""Medians, intervals, floors and the clock's lock."""

import multiprocessing
import random
import threading
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.floor import floor_ms
from kernelwright.timing.stats import noise_floor, ratio_interval, summarize

SAMPLES = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30)


@settings(max_examples=20, deadline=None)
@given(SAMPLES)
def test_the_interval_contains_the_median_and_stays_within_the_samples(times):
    timing = summarize(times)
    assert min(times) <= timing.low_ms <= timing.median_ms <= timing.high_ms <= max(times)
    assert timing.median_ms == median(times)
    assert timing.num_samples == len(times)


def test_the_interval_is_a_function_of_samples_and_seed():
    rng = random.Random(3)
    times = [rng.lognormvariate(0, 0.3) for _ in range(40)]
    assert summarize(times, seed=1) == summarize(times, seed=1)
    assert len({summarize(times[:9], seed=seed).low_ms for seed in range(40)}) > 1


def test_more_samples_give_a_narrower_interval():
    rng = random.Random(4)
    times = [rng.gauss(1.0, 0.1) for _ in range(400)]
    few, many = summarize(times[:10]), summarize(times)
    assert many.high_ms - many.low_ms < few.high_ms - few.low_ms


def test_the_interval_covers_the_true_median_about_95_percent_of_the_time():
    rng = random.Random(5)
    covered = 0
    for trial in range(60):
        timing = summarize([rng.gauss(1.0, 0.1) for _ in range(25)], seed=trial)
        covered += timing.low_ms <= 1.0 <= timing.high_ms
    assert covered >= 50  # P(fewer | true coverage 0.93) < 0.01


def test_a_real_difference_excludes_one_and_noise_does_not():
    rng = random.Random(6)
    slow = [rng.gauss(2.0, 0.05) for _ in range(20)]
    fast = [rng.gauss(1.0, 0.05) for _ in range(20)]
    low, high = ratio_interval(slow, fast)
    assert 1.8 < low <= high < 2.2
    low, high = ratio_interval(fast, [rng.gauss(1.0, 0.05) for _ in range(20)])
    assert low <= 1.0 <= high


def test_pairs_cancel_a_drift_that_both_sides_share():
    rng = random.Random(8)
    drift = [rng.uniform(1.0, 3.0) for _ in range(30)]
    slow = [2.0 * d * rng.gauss(1.0, 0.01) for d in drift]
    fast = [d * rng.gauss(1.0, 0.01) for d in drift]
    low, high = ratio_interval(slow, fast, is_paired=True)
    apart_low, apart_high = ratio_interval(slow, fast)
    assert 1.9 < low <= high < 2.1
    assert apart_high - apart_low > 5 * (high - low)


@settings(max_examples=20, deadline=None)
@given(SAMPLES, st.booleans())
def test_the_interval_holds_the_ratio_itself(times, is_paired):
    low, high = ratio_interval(times, times[::-1], is_paired=is_paired)
    assert low <= 1.0 <= high


def test_the_noise_floor_grows_with_the_noise_and_is_never_below_a_difference_seen():
    rng = random.Random(9)
    quiet = noise_floor([rng.gauss(1.0, 0.001) for _ in range(40)])
    loud = noise_floor([rng.gauss(1.0, 0.1) for _ in range(40)])
    assert 0.0 < quiet < 0.003 < 0.02 < loud
    assert noise_floor([1.0, 1.2] * 20) == pytest.approx(1 / 6)
    assert noise_floor([1.0]) is None


def test_no_samples_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_the_floor_is_the_larger_of_traffic_and_arithmetic():
    assert floor_ms("NVIDIA H200", 4_800_000_000, 0) == pytest.approx(1.0)
    assert floor_ms("NVIDIA H200", 8, 67_000_000_000, "fp32") == pytest.approx(1.0)
    assert floor_ms("some other card", 8, 8) is None


def _hold(entered, left, gpu, shared):
    with gpu_lock(gpu, shared=shared):
        entered.set()
        left.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "ours", "waits"),
    [(False, False, True), (False, True, True), (True, False, True), (True, True, False)],
    ids=["alone-alone", "alone-shared", "shared-alone", "shared-shared"],
)
def test_one_process_has_the_gpu_alone_or_several_share_it(theirs, ours, waits):
    context = multiprocessing.get_context("spawn")
    entered, left, taken = context.Event(), context.Event(), threading.Event()
    gpu = 980 + 2 * theirs + ours  # one each: another case may run at the same time
    holder = context.Process(target=_hold, args=(entered, left, gpu, theirs))
    holder.start()
    assert entered.wait(120)

    def take():
        with gpu_lock(gpu, shared=ours):
            taken.set()

    taker = threading.Thread(target=take)
    taker.start()
    assert taken.wait(0.5 if waits else 60) != waits
    left.set()
    assert taken.wait(60)
    taker.join()
    holder.join()
