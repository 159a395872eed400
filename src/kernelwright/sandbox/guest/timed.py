"""Guest side: timed calls, one at a time, and the share of own kernels.

Inputs are put, and calls are started, in separate requests, so that the host's wall clock sees the
call and little else.
"""

from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any

import torch

from kernelwright.sandbox.shared.tensors import flat_span, flatten
from kernelwright.timing.cuda_timer import CYCLES_PER_MS, event_pair, stopwatch
from kernelwright.timing.graphs import capture

Call = Callable[[], object]

_MIN_PAUSE_MS, _MAX_PAUSE_MS = 20.0, 2_000.0
_PAUSE_FACTOR = 3.0
"""A pause is this many times what the host took to launch the call before."""


class Timer:
    """Times the call that is ready, and keeps its result. Make it before candidates load."""

    def __init__(self) -> None:
        self._time = stopwatch()
        self._replays: Replays | None = None
        self._marks: list[torch.Tensor] = []
        self.queued_ms = 0.0
        """The longest time in which a call of the last request was queued."""
        self.forget()

    def forget(self) -> None:
        """Frees the last call's inputs and results."""
        self._call: Call = _nothing
        self._has_grad = False
        self._marks = []
        self.inputs: list[Any] = []
        self.result: object = None

    def ready(
        self, function: Callable[..., object], inputs: list[Any], *, has_grad: bool = False
    ) -> None:
        """Prepares the next timed call, in this grad mode."""
        self._call, self.inputs, self._has_grad = partial(function, *inputs), inputs, has_grad

    def ready_to_replay(self, kept: list[Any]) -> None:
        """Prepares the next timed replay of the captured graph on these values."""
        if self._replays is None:
            raise RuntimeError("no graph has been captured")
        self._replays.refill(kept)
        self._call, self.inputs = self._replays, self._replays.inputs

    def capture(
        self, function: Callable[..., object], inputs: list[Any], kept: list[Any]
    ) -> str | None:
        """Captures a call as a CUDA graph. Returns the reason where that fails, else None."""
        try:
            with torch.no_grad():
                self._replays = Replays(function, inputs, kept)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]
        return None

    def time(self, *, is_idle: bool, repeats: int, pause_ms: float) -> float:
        """Returns the milliseconds of `repeats` calls in all, or of no calls at all by the same
        path.

        Sums over the outputs are queued at once, and compared when the outputs have been handed
        over. A write after the call has ended changes them.
        """
        self.queued_ms = 0.0
        if is_idle:
            return sum(self._time(_nothing, pause_ms).time_ms for _ in range(repeats))
        total_ms = 0.0
        with torch.set_grad_enabled(self._has_grad):
            for _ in range(repeats):
                self.result = None  # its memory serves the next call, as it does in use
                timed = self._time(self._call, pause_ms)
                self.result = timed.result
                self.queued_ms = max(self.queued_ms, timed.queued_ms)
                total_ms += timed.time_ms
            self._marks = _sums(flatten(self.result)[1])
        return total_ms

    def has_changed(self, outputs: list[torch.Tensor]) -> bool:
        """Whether the outputs of the timed call differ from those at its end."""
        marks, self._marks = self._marks, []
        return not all(map(torch.equal, marks, _sums(outputs)))


class Replays:
    """A call's CUDA graph over inputs that are written anew before each replay."""

    def __init__(self, function: Callable[..., object], inputs: list[Any], kept: list[Any]) -> None:
        self.inputs = inputs
        self._function = function  # a graph has its weights' addresses, and does not keep them
        self._graph, self._result = capture(lambda: function(*inputs), lambda: self.refill(kept))

    def refill(self, kept: list[Any]) -> None:
        """Writes values of the same shapes and strides into the captured inputs."""
        for mine, original in zip(self.inputs, kept, strict=True):
            if isinstance(mine, torch.Tensor):
                flat_span(mine).copy_(flat_span(original))

    def __call__(self) -> object:
        self._graph.replay()
        return self._result


def _nothing() -> None:
    return None


def _sums(values: Iterable[object]) -> list[torch.Tensor]:
    """Queues sums over each tensor's memory, as int64 scalars; does not wait."""
    return [_sum(flat_span(value)) for value in values if isinstance(value, torch.Tensor)]


def _sum(span: torch.Tensor) -> torch.Tensor:
    """Queues the sum of bytes, eight at a time. PyTorch would copy single bytes to int64 first,
    which needs eight times the output's memory."""
    if span.storage_offset() % 8:
        return span.sum(dtype=torch.int64)
    end = span.numel() // 8 * 8
    return span[:end].view(torch.int64).sum() + span[end:].sum(dtype=torch.int64)


Spans = list[tuple[torch.cuda.Event, torch.cuda.Event]]


def own_share(call: Call, watch_spans: Callable[[], Spans]) -> float | None:
    """Returns the share of one call's GPU time between the events around launches of own kernels.

    All of the call is queued behind a pause, so that no gap between launches counts on either side;
    a profiler would take 4 s to start. Each launch carries the cost of its events, some 2 us.

    Args:
        watch_spans: begins to collect event pairs in the list that it returns.

    Returns:
        None where the pause was over before all was queued: the call waits for the device, and gaps
            would count as work.
    """
    begin, end = event_pair()
    with torch.no_grad():
        call()
        torch.cuda.synchronize()
        begin_s = perf_counter()
        call()
        launch_ms = (perf_counter() - begin_s) * 1e3
        torch.cuda.synchronize()
        spans = watch_spans()
        pause_ms = min(max(_PAUSE_FACTOR * launch_ms, _MIN_PAUSE_MS), _MAX_PAUSE_MS)
        torch.cuda._sleep(int(pause_ms * CYCLES_PER_MS))  # type: ignore[no-untyped-call]
        begin.record()
        call()
        end.record()
        is_queued = not begin.query()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    if not is_queued:
        return None
    total_ms = float(begin.elapsed_time(end))
    own = [(begin.elapsed_time(first), begin.elapsed_time(last)) for first, last in spans]
    return covered(own, total_ms) / total_ms


def covered(spans: Iterable[tuple[float, float]], end: float) -> float:
    """Returns the length of the union of spans within [0, end]: kernels side by side count once."""
    total = reached = 0.0
    for first, last in sorted(spans):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total
