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
    """The call's graph and what the captured call returned: memory that every replay writes.

    It is captured twice, and the second capture counts: a call that launches only in the first one
    shows. `refresh` writes the call's inputs in place; it runs before every warm-up and capture, so
    that what follows updates of them (packed weights) is in the graph.

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
    """What the block launches becomes `graph`; other threads may use the GPU meanwhile.

    As `torch.cuda.graph`, but a capture that fails is over. PyTorch leaves its stream current, and
    allocates for it still: then the end of any `MemPool` ends the process (2.11).

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
        with suppress(RuntimeError):  # one that did end has let go of it
            torch._C._cuda_endAllocateToPool(before.device_index, pool)
            torch._C._cuda_releasePool(before.device_index, pool)
        raise


@contextmanager
def _no_waiting(is_strict: bool) -> Iterator[None]:
    """Operators that wait for the device raise: better here than in the middle of a capture."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode("error" if is_strict else before)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
