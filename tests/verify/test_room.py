"""How the linter's workers share a GPU's memory."""

import threading
import time
from contextlib import ExitStack

from kernelwright.verify.room import NUM_SLOTS, NUM_SMALL, reserved


def test_slots_are_shared_and_those_who_want_too_many_wait(tmp_path):
    events = []

    def want(name, num_slots):
        with reserved(tmp_path, num_slots):
            events.append(f"{name} has")
            time.sleep(0.2)
            events.append(f"{name} ends")

    with reserved(tmp_path, NUM_SLOTS // 2):
        half = threading.Thread(target=want, args=("half", NUM_SLOTS // 2))
        half.start()
        half.join(60)
        assert events == ["half has", "half ends"]
        whole = threading.Thread(target=want, args=("whole", NUM_SLOTS))
        whole.start()
        time.sleep(0.3)
        assert events == ["half has", "half ends"]
    whole.join(60)
    assert events[2:] == ["whole has", "whole ends"]


def test_small_ones_do_not_wait_behind_a_large_one_that_waits(tmp_path):
    events = []

    def want(name, num_slots):
        with reserved(tmp_path, num_slots):
            events.append(name)

    def begun(name, num_slots):
        thread = threading.Thread(target=want, args=(name, num_slots))
        thread.start()
        time.sleep(0.2)
        return thread

    with reserved(tmp_path, NUM_SLOTS - NUM_SMALL):
        large = begun("large", NUM_SLOTS // 2)
        for name in ("small", "small too"):
            begun(name, NUM_SMALL).join(60)
        assert events == ["small", "small too"]
    large.join(60)
    assert events[-1] == "large"


def test_small_ones_take_room_that_no_large_one_wants(tmp_path):
    with ExitStack() as held:
        for _ in range(NUM_SLOTS // NUM_SMALL):
            held.enter_context(reserved(tmp_path, NUM_SMALL))


def test_large_ones_never_wait_for_each_other_in_a_circle(tmp_path):
    done = []

    def want(name):
        with reserved(tmp_path, NUM_SLOTS - 3):
            done.append(name)

    threads = [threading.Thread(target=want, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(done) == list(range(6))
