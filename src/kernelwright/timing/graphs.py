"""A call as a CUDA graph, where one can be captured legally."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

_NUM_WARMUPS, _NUM_CAPTURES = 2, 2


def capture(
    call: Callable[[], object], refresh: Callable[[], None]
) -> tuple[torch.cuda.CUDAGraph, object]:
    """Captures the call as a CUDA graph. Returns the graph, and the memory that every replay
    writes.

    It is captured twice, and the second capture counts: a call that launches only in the first one
    is found. `refresh` writes the call's inputs in place. It runs before every warm-up and capture,
    so that work that follows updates of inputs (packed weights) is in the graph.

    Raises:
        Exception: whatever the call raised, or what makes capture illegal (waiting for the device).
    """
    result: object
    before = torch.cuda.current_stream()
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    try:
        for number in range(_NUM_WARMUPS):
            refresh()
            side.wait_stream(before)
            with torch.cuda.stream(side), _no_waiting(number > 0):
                call()
            before.wait_stream(side)
        for _ in range(_NUM_CAPTURES):
            refresh()
            graph, result = torch.cuda.CUDAGraph(), None
            with capturing(graph, stream=side):
                result = call()
    finally:
        torch.cuda.synchronize()
    return graph, result


@contextmanager
def capturing(
    graph: torch.cuda.CUDAGraph, *, pool: Any = None, stream: torch.cuda.Stream | None = None
) -> Iterator[None]:
    """Captures launches of the block as `graph`; launches of other threads meanwhile are not
    captured.

    Works as `torch.cuda.graph`, but a capture that fails leaves PyTorch as it was before. By itself
    PyTorch leaves the capture's stream current, its pool open, and the generator of random numbers
    waiting for its end (2.11). Draws fail then, and the end of any `MemPool` ends the process.

    Args:
        pool: of another graph, whose memory this one computes in too; None: its own.
        stream: to capture on; None: PyTorch's own for captures.
    """
    pool = pool or torch.cuda.graph_pool_handle()
    before = torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            yield
    except BaseException:
        torch.cuda.set_stream(before)
        if not _has_ended(graph):
            _give_up(pool, before.device_index)
        raise


def _has_ended(graph: torch.cuda.CUDAGraph) -> bool:
    """Whether the graph's capture came to a good end, whatever was raised on the way."""
    try:
        graph.pool()
    except RuntimeError:
        return False
    return True


def _give_up(pool: Any, device_index: int) -> None:
    """Undoes what PyTorch leaves of a capture that failed: the open pool and the waiting
    generator."""
    # Where PyTorch has ended it (2.13), or it had not begun, the first call raises. What was taken
    # from the pool stays reserved then: better than to give back what another graph uses.
    with suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(device_index, pool)
        torch._C._cuda_releasePool(device_index, pool)
    # One that succeeds lets go of the generator; where none does, what was raised first says why.
    again = torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local")
    with suppress(RuntimeError), again:
        torch.zeros(1, device="cuda")


@contextmanager
def _no_waiting(is_strict: bool) -> Iterator[None]:
    """Makes operators that wait for the device raise, if `is_strict`. Such an error is better here
    than in the middle of a capture."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode("error" if is_strict else before)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
