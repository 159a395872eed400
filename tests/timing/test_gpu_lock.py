"""The GPU's lock between processes."""

import multiprocessing
import os

import pytest

from kernelwright.timing.clock import gpu_lock

SPAWN = multiprocessing.get_context("spawn")


def take(shown, shared, taken):
    os.environ["CUDA_VISIBLE_DEVICES"] = shown
    with gpu_lock(0, shared=shared):
        taken.set()


def can_be_taken_beside(shown, *, shared=False, within_s=120.0):
    taken = SPAWN.Event()
    process = SPAWN.Process(target=take, args=(shown, shared, taken))
    process.start()
    found = taken.wait(within_s)
    process.kill()
    process.join()
    return found


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "971,972")  # no test beside this one has these


@pytest.mark.slow
def test_whoever_has_a_gpu_alone_keeps_others_off_that_one_only():
    with gpu_lock(1):
        assert not can_be_taken_beside("972", shared=True, within_s=3.0)
        assert can_be_taken_beside("973")


@pytest.mark.slow
def test_sharers_share_and_keep_off_who_wants_it_alone():
    with gpu_lock(0, shared=True):
        assert can_be_taken_beside("971,972", shared=True)
        assert not can_be_taken_beside("971", within_s=3.0)
    assert can_be_taken_beside("971")
