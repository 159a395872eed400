"""Seconds by stage, on a clock that moves only where a test says so."""

import threading
from types import SimpleNamespace

import pytest

from kernelwright.timing import stages
from kernelwright.timing.stages import child_waited, stage, take_spent, waited_s, worked_s


class Clock(threading.local):
    """The time of each thread."""

    now_s = 0.0

    def rest(self, seconds):
        self.now_s += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    fake = SimpleNamespace(perf_counter=lambda: clock.now_s, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(stages, "time", fake)
    take_spent()
    return clock


@stage("inner")
def nap(clock, seconds):
    clock.rest(seconds)
    return "rested"


@stage("inner")
def fail(clock):
    clock.rest(0.1)
    raise ValueError("no")


def test_the_time_of_an_inner_stage_is_not_the_outer_ones(clock):
    with stage("outer"):
        assert nap(clock, 0.1) == "rested"
        clock.rest(0.05)
    assert take_spent() == pytest.approx({"inner": 0.1, "outer": 0.05})
    assert take_spent() == {}


def test_threads_add_up_and_an_error_still_counts(clock):
    def fails():
        with pytest.raises(ValueError, match="no"):
            fail(clock)

    threads = [threading.Thread(target=fails) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert take_spent() == pytest.approx({"inner": 0.3})


def test_a_budgets_clock_stands_still_while_this_thread_waits_for_others(clock):
    before_s = worked_s()
    with stage("wait", is_waiting=True):
        clock.rest(0.2)
    with stage("work"):
        clock.rest(0.05)
    assert worked_s() - before_s == pytest.approx(0.05)


def test_the_waiting_of_the_process_counts_threads_once(clock):
    before_s = waited_s()
    with stage("wait", is_waiting=True):
        clock.rest(0.2)
        assert waited_s() - before_s == pytest.approx(0.2), "the wait has not ended"
        with stage("wait", is_waiting=True):  # as of another thread
            clock.rest(0.1)
    clock.rest(0.4)
    assert waited_s() - before_s == pytest.approx(0.3)


def test_a_childs_waiting_is_no_work_of_the_thread_that_waits_for_its_end(clock):
    before_s = worked_s()
    with stage("child"):
        clock.rest(0.5)
        child_waited("wait", 0.3)
    assert worked_s() - before_s == pytest.approx(0.2)
    assert take_spent() == pytest.approx({"child": 0.2, "wait": 0.3})
