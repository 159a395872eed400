"""The time of one call on the GPU: CUDA events, cold L2, nothing left running unseen."""

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch

from kernelwright.timing.cuda_driver import driver

_SETTLED_MS = 0.05
"""A device-wide wait after the end event that takes longer found work on another stream; an idle
device answers in some 0.01 ms."""

CYCLES_PER_MS = 2_000_000
"""The most cycles of an H200's clock in a millisecond, so that no pause is too short."""
PAUSE_MS, MAX_PAUSE_MS = 0.6, 20.0
"""The pause of the device while a call is queued, where launches must not count: the usual one, and
the longest. Holding other streams back takes a part of the pause, and a process that waited for its
next request is slow to launch."""
_PAUSE_FACTOR = 2.0
"""A pause is this many times the least time in which the slowest side queued a call."""
_MOST_OF_REFERENCE = 6.0
"""The longest pause, in times of the reference's launches. Kernels of Triton take up to three times
as long to launch as calls of PyTorch. A candidate that takes longer computes on the host, and that
time counts."""
REFERENCE = "reference"
"""The side that the others are compared with."""


class ColdCall(NamedTuple):
    """One timed call."""

    time_ms: float
    """Time on the GPU, by events."""
    queued_ms: float
    """Time that the host took to queue the call, from the beginning of the pause. Where it is
    longer than the pause, launches are a part of `time_ms`."""
    result: object


class Pause:
    """The pause before each timed call of all sides that are compared. Its length adapts to the
    slowest side: twenty launches beside busy processors take longer than the usual pause."""

    def __init__(self, ms: float = PAUSE_MS) -> None:
        """
        Args:
            ms: the pause of the first call; 0 for calls whose launches count. It stays 0.
        """
        self.ms = self._usual_ms = ms
        self._queued_ms: dict[str, float] = {}

    def note(self, side: str, queued_ms: float) -> None:
        """Takes note of the time in which a side queued a call. The least time counts: first calls
        compile, and others may wait for a processor.

        Args:
            side: REFERENCE, or the name of another contender.
        """
        self._queued_ms[side] = min(queued_ms, self._queued_ms.get(side, queued_ms))

    def adapt(self) -> None:
        """Makes the pause as long as the noted times need."""
        if self._usual_ms and REFERENCE in self._queued_ms:
            needed_ms = _PAUSE_FACTOR * max(self._queued_ms.values())
            most_ms = min(_MOST_OF_REFERENCE * self._queued_ms[REFERENCE], MAX_PAUSE_MS)
            self.ms = max(self._usual_ms, min(needed_ms, most_ms))


class Stopwatch(Protocol):
    def __call__(self, call: Callable[[], object], pause_ms: float = 0.0) -> ColdCall:
        """Calls once.

        Args:
            pause_ms: of the device before the flush, while the call is queued. PyTorch's other
                streams wait for its end too, so that nothing of the call begins before.
        """


def stopwatch() -> Stopwatch:
    """Returns a function that times one call on the current stream, from an idle device and a cold
    L2.

    The call is queued behind the flush (some 0.1 ms), so that its own launch does not make a short
    call longer. Work that it leaves on other streams, or starts from other threads, is waited for
    and added.

    Make it before any code loads that is not trusted. The functions that it uses are looked up
    here, most of them in C: if a candidate replaces them in torch or `time` later, nothing changes.
    """
    begin, end = event_pair()
    base = torch._C._CudaEventBase
    record, wait_for, elapsed_ms = base.record, base.synchronize, base.elapsed_time
    synchronize, now_s = torch._C._cuda_synchronize, time.perf_counter
    stream, flush, sleep = torch.cuda.current_stream(), l2_flush(), torch.cuda._sleep
    hold_back = holding_back(stream)

    def time_cold(call: Callable[[], object], pause_ms: float = 0.0) -> ColdCall:
        synchronize()
        begun_s = now_s()
        if pause_ms:
            sleep(int(pause_ms * CYCLES_PER_MS))  # type: ignore[no-untyped-call]
        flush()
        if pause_ms:
            hold_back()
        record(begin, stream)
        result = call()
        record(end, stream)
        queued_s = now_s()
        wait_for(end)
        ended_s = now_s()
        synchronize()
        synchronize()  # what a thread launched while the first one returned
        tail_ms = (now_s() - ended_s) * 1e3
        time_ms = elapsed_ms(begin, end) + (tail_ms if tail_ms > _SETTLED_MS else 0.0)
        return ColdCall(time_ms, (queued_s - begun_s) * 1e3, result)

    return time_cold


def holding_back(stream: torch.cuda.Stream) -> Callable[[], None]:
    """Returns a function that makes all of PyTorch's other streams wait for the work queued on this
    stream.

    They do not wait by themselves: work that a call launches there would run during its pause.
    PyTorch hands out no further streams. Default streams need no help, because they wait for each
    other.
    """
    make, reached = torch.cuda.Stream, torch.cuda.Event()  # type: ignore[no-untyped-call]
    record, wait = torch._C._CudaEventBase.record, torch._C._CudaEventBase.wait
    others: list[torch.cuda.Stream] = []  # made at first use: most processes pause nothing

    def hold_back() -> None:
        if not others:
            others.extend(pooled_streams(make))
        record(reached, stream)
        for other in others:
            wait(reached, other)

    return hold_back


def pooled_streams(
    make: Callable[..., torch.cuda.Stream] = torch.cuda.Stream,
) -> list[torch.cuda.Stream]:
    """Returns every stream that PyTorch hands out on the current device: some of each priority, in
    turn."""
    streams: dict[int, torch.cuda.Stream] = {}
    priority = 0
    while True:
        num_before = len(streams)
        # The pool is a ring: the first stream that comes a second time ends the round.
        while (stream := make(priority=priority)).cuda_stream not in streams:
            streams[stream.cuda_stream] = stream
        if (
            len(streams) == num_before
        ):  # there is no such priority, and the last one is taken for it
            return list(streams.values())
        priority -= 1


def event_pair() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Returns two timing events, to record before and after the work."""
    begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return begin, end


def l2_flush() -> Callable[[], None]:
    """Returns a function that reads and writes memory of four times the L2's size, at least 256
    MiB. Lines that are kept for reading go too; lines kept by an access-policy window are given up
    first."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    num_words = max(4 * properties.L2_cache_size, 256 << 20) // 4
    zeros, add, reset = torch.zeros, torch.Tensor.add_, _persisting_reset()
    buffer: list[torch.Tensor] = []  # made at first use: most processes time nothing

    def flush() -> None:
        if not buffer:
            buffer.append(zeros(num_words, dtype=torch.int32, device="cuda"))
        reset()
        add(buffer[0], 1)

    return flush


def _persisting_reset() -> Callable[[], object]:
    """Returns the driver's call that gives up persisting lines. A driver without the call leaves
    this to the flush."""
    reset = getattr(driver(), "cuCtxResetPersistingL2Cache", None)
    return (lambda: None) if reset is None else (lambda: reset())
