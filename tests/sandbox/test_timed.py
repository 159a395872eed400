"""The guest's timer without a GPU: a stopwatch that counts calls stands for the real one."""

import gc
import threading
import weakref
from itertools import cycle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.sandbox.guest import timed
from kernelwright.sandbox.guest.timed import Replays, Timer, covered, own_share
from kernelwright.timing.cuda_timer import PAUSE_MS, ColdCall


class Graph:
    """Computes again, into the memory of the first time."""

    def __init__(self, call, result):
        self.call, self.result = call, result

    def replay(self):
        for mine, new in zip(self.result, self.call(), strict=True):
            mine.copy_(new)


def capture(call, refresh):
    refresh()
    result = call()
    return Graph(call, result), result


@pytest.fixture
def timer(monkeypatch):
    pauses_ms, queued_ms = [], cycle([0.3, 0.1])

    def time_cold(call, pause_ms):
        pauses_ms.append(pause_ms)
        return ColdCall(1.0, next(queued_ms), call())

    monkeypatch.setattr(timed, "stopwatch", lambda: time_cold)
    monkeypatch.setattr(timed, "capture", capture)
    timer = Timer()
    timer.pauses_ms = pauses_ms
    return timer


def double(x):
    return [x * 2]


def test_what_was_made_ready_is_called_and_described(timer):
    x = torch.randn(5)
    timer.ready(double, [x])
    assert timer.time(is_idle=False, repeats=1, pause_ms=0.0) == 1.0
    assert torch.equal(timer.result[0], x * 2)
    assert timer.inputs[0] is x
    assert not timer.has_changed(timer.result)


def test_an_idle_call_calls_nothing(timer):
    calls = []
    timer.ready(lambda: calls.append(1), [])
    timer.time(is_idle=True, repeats=1, pause_ms=0.0)
    assert calls == []


def test_several_calls_add_up(timer):
    calls = []
    timer.ready(lambda: calls.append(1), [])
    assert timer.time(is_idle=False, repeats=4, pause_ms=0.0) == 4.0
    assert len(calls) == 4
    assert timer.queued_ms == 0.3
    timer.time(is_idle=True, repeats=1, pause_ms=0.0)
    assert timer.queued_ms == 0.0


def test_idle_calls_have_the_same_pause(timer):
    timer.ready(double, [torch.ones(3)])
    for is_idle in (False, True):
        timer.time(is_idle=is_idle, repeats=2, pause_ms=PAUSE_MS)
    assert timer.pauses_ms == [PAUSE_MS] * 4


def test_the_call_before_is_let_go(timer):
    timer.ready(double, [torch.randn(5)])
    timer.time(is_idle=False, repeats=1, pause_ms=0.0)
    timer.forget()
    assert timer.result is None
    assert timer.inputs == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.bfloat16])
def test_outputs_written_after_the_call_show(timer, dtype):
    late, before = threading.Event(), set(threading.enumerate())

    def lazily(x):
        out = torch.zeros_like(x)

        def compute():
            late.wait()
            out.copy_(x)

        threading.Thread(target=compute).start()
        return [out]

    timer.ready(lazily, [torch.ones(64).to(dtype)])
    timer.time(is_idle=False, repeats=1, pause_ms=0.0)
    late.set()
    (thread,) = set(threading.enumerate()) - before
    thread.join()
    assert timer.has_changed(timer.result)


def test_a_replay_follows_new_values(timer):
    first, second = torch.randn(5), torch.randn(5)
    assert timer.capture(double, [first.clone()], [first]) is None
    timer.ready_to_replay([second])
    timer.time(is_idle=False, repeats=1, pause_ms=0.0)
    assert torch.equal(timer.result[0], second * 2)
    assert torch.equal(timer.inputs[0], second)


def test_weights_that_a_graph_reads_live_as_long_as_its_replays(monkeypatch):
    monkeypatch.setattr(timed, "capture", lambda *_: (object(), None))
    module, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    weight = weakref.ref(module.weight)
    replays = Replays(module, [x], [x])
    del module
    gc.collect()
    assert weight() is not None
    del replays
    gc.collect()
    assert weight() is None


def test_why_a_call_cannot_be_captured_is_said(timer, monkeypatch):
    def refuse(call, refresh):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(timed, "capture", refuse)
    assert "not permitted" in timer.capture(double, [torch.ones(1)], [torch.ones(1)])
    with pytest.raises(RuntimeError, match="no graph"):
        timer.ready_to_replay([torch.ones(1)])


def test_spans_side_by_side_count_once():
    assert covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)], 10.0) == 4.0
    assert covered([(2.0, 9.0), (3.0, 4.0)], 10.0) == 7.0
    assert covered([], 10.0) == 0.0


def test_spans_outside_the_call_do_not_count():
    assert covered([(-3.0, -1.0), (-1.0, 1.0), (9.0, 12.0)], 10.0) == 2.0


class Event:
    """Records the time of a clock that tests move."""

    now_ms = 0.0
    is_over = False

    def record(self):
        self.at_ms = Event.now_ms

    def query(self):
        return Event.is_over

    def elapsed_time(self, other):
        return other.at_ms - self.at_ms


@pytest.fixture
def device(monkeypatch):
    """A GPU whose work takes the time that calls add to the clock."""
    monkeypatch.setattr(timed, "event_pair", lambda: (Event(), Event()))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _cycles: None)
    monkeypatch.setattr(Event, "is_over", False)
    return Event


def own_and_others(spans_of):
    """A call of 3 ms in own kernels and 1 ms in others'."""

    def call():
        first, last = Event(), Event()
        first.record()
        Event.now_ms += 3.0
        last.record()
        Event.now_ms += 1.0
        spans_of().append((first, last))

    return call


def test_the_share_is_of_the_time_in_own_launches(device):
    spans = []
    assert own_share(own_and_others(lambda: spans), lambda: spans.clear() or spans) == 0.75


def test_no_share_is_given_where_the_call_waits_for_the_device(device):
    device.is_over = True
    spans = []
    assert own_share(own_and_others(lambda: spans), lambda: spans) is None


@given(st.integers(0, 100), st.integers(0, 9), st.integers(0, 255))
def test_a_byte_that_changes_anywhere_shows(size, offset, value):
    whole = torch.arange(size + offset, dtype=torch.uint8)
    tensor = whole[offset:]
    before = timed._sums([tensor])
    for place in range(size):
        kept = int(tensor[place])
        tensor[place] = value
        assert torch.equal(before[0], timed._sums([tensor])[0]) == (kept == value)
        tensor[place] = kept
