"""How the linter's workers share a GPU's memory."""

import threading
import time

from kernelwright.verify.room import NUM_SLOTS, reserved


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
        half.join(10)
        assert events == ["half has", "half ends"]
        whole = threading.Thread(target=want, args=("whole", NUM_SLOTS))
        whole.start()
        time.sleep(0.3)
        assert events == ["half has", "half ends"]
    whole.join(10)
    assert events[2:] == ["whole has", "whole ends"]


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
