"""The stopwatch's order of work, without a GPU."""

import time
from itertools import cycle
from types import SimpleNamespace

import pytest
import torch

from kernelwright.timing import cuda_timer
from kernelwright.timing.cuda_timer import (
    PAUSE_MS,
    REFERENCE,
    Pause,
    holding_back,
    pooled_streams,
    stopwatch,
)

POOLS = {0: "abc", -1: "de", -2: "f"}
"""Streams by priority, which PyTorch hands out in turn."""


@pytest.fixture
def log(monkeypatch):
    """What is done, in order; nothing of it on a GPU."""
    done = []
    pools = {priority: cycle(names) for priority, names in POOLS.items()}

    def stream(priority=0):
        return SimpleNamespace(cuda_stream=next(pools[max(priority, min(POOLS))]))

    class Event:
        def __init__(self, enable_timing=False):
            self.name = "time" if enable_timing else "reached"

        def record(self, stream):
            done.append(f"record {self.name}")

        def wait(self, stream):
            done.append(f"{stream.cuda_stream} waits")

        def synchronize(self): ...

        def elapsed_time(self, end):
            return 1.5

    names = {
        "Stream": stream, "Event": Event, "_sleep": lambda _cycles: done.append("pause"),
        "current_stream": lambda: SimpleNamespace(cuda_stream="default"),
    }  # fmt: skip
    for name, value in names.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_CudaEventBase", Event, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: None, raising=False)
    monkeypatch.setattr(cuda_timer, "l2_flush", lambda: lambda: done.append("flush"))
    return done


def test_streams_of_every_priority_are_found_once(log):
    next_ones = [torch.cuda.Stream(priority=p) for p in (0, -1)]  # the pools have moved on
    assert len(next_ones) == 2
    assert sorted(each.cuda_stream for each in pooled_streams(torch.cuda.Stream)) == list("abcdef")


def test_all_of_them_wait_for_what_is_queued(log):
    holding_back(torch.cuda.current_stream())()
    assert log[0] == "record reached"
    assert sorted(log[1:]) == [f"{name} waits" for name in "abcdef"]


def test_nothing_of_a_call_begins_before_its_pause_is_over(log):
    time_cold = stopwatch()
    timed = time_cold(lambda: log.append("call") or time.sleep(0.01) or "result", PAUSE_MS)
    assert (timed.time_ms, timed.result) == (1.5, "result")
    assert timed.queued_ms >= 10.0
    begin, at = log.index("record time"), log.index("call")
    assert log[:3] == ["pause", "flush", "record reached"]
    assert {f"{name} waits" for name in "abcdef"} == set(log[3:begin])
    assert begin < at


def test_without_a_pause_there_is_the_flush_alone(log):
    time_cold = stopwatch()
    time_cold(lambda: log.append("call"))
    assert log == ["flush", "record time", "call", "record time"]


@pytest.mark.parametrize(
    ("notes", "pause_ms"),
    [
        ([(REFERENCE, 0.1), ("candidate", 0.2)], PAUSE_MS),
        ([(REFERENCE, 9.0), ("candidate", 1.0), (REFERENCE, 2.0)], 4.0),
        ([(REFERENCE, 3.0), ("compiled", 0.2)], 6.0),
        ([(REFERENCE, 0.5), ("candidate", 2.9)], 3.0),
        ([(REFERENCE, 90.0)], 20.0),
    ],
    ids=["usual", "least time", "slowest side", "work on the host", "longest"],
)
def test_the_notes_decide_how_long_the_pause_is(notes, pause_ms):
    pause = Pause()
    for side, queued_ms in notes:
        pause.note(side, queued_ms)
    pause.adapt()
    assert pause.ms == pause_ms


def test_a_pause_shrinks_when_a_later_call_is_queued_sooner():
    pause = Pause()
    for time_ms, pause_ms in ((5.0, 10.0), (1.0, 2.0)):
        pause.note(REFERENCE, time_ms)
        pause.adapt()
        assert pause.ms == pause_ms
