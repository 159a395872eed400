"""Seconds by stage."""

import threading
import time

import pytest

from kernelwright.timing.stages import stage, take_spent, worked_s


@stage("inner")
def nap(seconds):
    time.sleep(seconds)
    return "rested"


@stage("inner")
def fail():
    time.sleep(0.1)
    raise ValueError("no")


def test_the_time_of_an_inner_stage_is_not_the_outer_ones():
    take_spent()
    with stage("outer"):
        assert nap(0.1) == "rested"
        time.sleep(0.05)
    spent = take_spent()
    assert spent["inner"] == pytest.approx(0.1, abs=0.04)
    assert spent["outer"] == pytest.approx(0.05, abs=0.04)
    assert take_spent() == {}


def test_threads_add_up_and_an_error_still_counts():
    take_spent()

    def fails():
        with pytest.raises(ValueError, match="no"):
            fail()

    threads = [threading.Thread(target=fails) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert take_spent()["inner"] == pytest.approx(0.3, abs=0.1)


def test_a_budgets_clock_stands_still_while_this_thread_waits_for_others():
    before_s = worked_s()
    with stage("wait", is_waiting=True):
        time.sleep(0.2)
    with stage("work"):
        time.sleep(0.05)
    assert worked_s() - before_s == pytest.approx(0.05, abs=0.04)
