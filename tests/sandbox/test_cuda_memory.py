"""What passes through a guest's window, on a window of plain memory; tests/gpu has the real one."""

import pytest
import torch

from kernelwright.sandbox.shared import cuda_memory, window
from kernelwright.sandbox.shared.tensors import TensorMeta

WINDOW = torch.zeros(1 << 16, dtype=torch.uint8)


class PlainWindow:
    handle = "ab"
    num_open = 0

    def __init__(self):
        self.memory = WINDOW
        PlainWindow.num_open += 1

    def close(self):
        PlainWindow.num_open -= 1


@pytest.fixture
def waits(monkeypatch):
    """Each wait for the GPU adds to it."""
    waited = []
    WINDOW.zero_()
    monkeypatch.setattr(PlainWindow, "num_open", 0)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(None))
    monkeypatch.setattr(window, "Window", PlainWindow)
    monkeypatch.setattr(window, "opened", {PlainWindow.handle: WINDOW}.__getitem__)
    monkeypatch.setattr(window, "WINDOW_BYTES", WINDOW.numel())
    monkeypatch.setattr(cuda_memory, "_nothing", lambda: torch.empty(0, dtype=torch.uint8))
    return waited


TENSORS = [
    torch.arange(7, dtype=torch.float32),
    torch.arange(12, dtype=torch.int64).reshape(3, 4).t(),
    torch.zeros(0, 5),
    torch.arange(20, dtype=torch.bfloat16)[::3],
]


def test_tensors_arrive_with_their_values_and_strides_in_either_direction(waits):
    memory = cuda_memory.DeviceMemory()
    metas = [TensorMeta.of(tensor) for tensor in TENSORS]
    with memory.lend(TENSORS) as lent:
        taken = cuda_memory.take(lent.handle, lent.begins, metas)
    with memory.land(metas) as (shared, landings):
        cuda_memory.deliver(shared.handle, shared.begins, taken)
        found = [landing.clone() for landing in landings]
    for given, mine, back in zip(TENSORS, taken, found, strict=True):
        assert (mine.stride(), mine.dtype) == (given.stride(), given.dtype)
        assert torch.equal(mine, given)
        assert torch.equal(back, given)


def test_nothing_of_what_a_candidate_returned_stays_for_the_next(waits):
    memory = cuda_memory.DeviceMemory()
    metas = [TensorMeta.of(torch.ones(100))]
    with memory.land(metas) as (shared, _):
        cuda_memory.deliver(shared.handle, shared.begins, [torch.ones(100)])
        assert WINDOW.any()
    assert not WINDOW.any()


def test_what_is_queued_to_be_read_is_waited_for_before_anybody_writes_there(waits):
    memory = cuda_memory.DeviceMemory()
    metas = [TensorMeta.of(torch.ones(3))]
    with memory.land(metas):
        waits.clear()
    assert waits == []
    with memory.land(metas):
        assert len(waits) == 1
    with memory.lend([torch.ones(3)]):
        waits.clear()
    with memory.land(metas):  # lending has waited
        assert waits == []


def test_a_window_is_made_once_and_freed_with_its_guest(waits):
    memory = cuda_memory.DeviceMemory()
    assert PlainWindow.num_open == 0
    for _ in range(2):
        with memory.lend([torch.ones(3)]):
            assert PlainWindow.num_open == 1
    memory.close()
    memory.close()
    assert PlainWindow.num_open == 0


def test_what_does_not_fit_is_shared_for_one_request(waits, monkeypatch):
    given = []

    def own(num_bytes):
        given.append(num_bytes)
        return cuda_memory._Span(torch.zeros(num_bytes, dtype=torch.uint8), {"handle": "own"})

    monkeypatch.setattr(cuda_memory, "_own", own)
    monkeypatch.setattr(torch.cuda, "ipc_collect", lambda: None)
    with cuda_memory.DeviceMemory().lend([torch.ones(1 << 15)]) as lent:
        assert lent.handle == {"handle": "own"}
    assert given == [4 << 15]
    assert PlainWindow.num_open == 0
