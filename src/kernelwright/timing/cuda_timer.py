"""Times of one callable on the GPU: CUDA events, cold L2, nothing left running unseen."""

import time
from collections.abc import Callable

import torch

_SETTLED_MS = 0.05
"""A device-wide wait after the end event that takes longer found work on another stream; an idle
device answers in some 0.01 ms."""


def time_cold(call: Callable[[], object], repeats: int) -> list[float]:
    """Milliseconds of each of `repeats` calls, L2 flushed before each.

    The device is idle when a repeat begins. What a call leaves running on other streams is waited
    for, and its time added.
    """
    begin, end = event_pair()
    buffer = flush_buffer()
    torch.cuda.synchronize()
    times_ms = []
    for _ in range(repeats):
        flush_l2(buffer)
        begin.record()
        call()
        end.record()
        end.synchronize()
        ended_s = time.perf_counter()
        torch.cuda.synchronize()
        tail_ms = (time.perf_counter() - ended_s) * 1e3
        times_ms.append(begin.elapsed_time(end) + (tail_ms if tail_ms > _SETTLED_MS else 0.0))
    return times_ms


def event_pair() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    """Events to record before and after what is to be timed."""
    begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return begin, end


def flush_buffer() -> torch.Tensor:
    """Memory of four times the L2's size, at least 256 MiB."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    num_bytes = max(4 * properties.L2_cache_size, 256 << 20)
    return torch.zeros(num_bytes // 4, dtype=torch.int32, device="cuda")


def flush_l2(buffer: torch.Tensor) -> None:
    """Read and write the whole buffer, so that lines kept for reading go too."""
    buffer.add_(1)
