"""A call as a CUDA graph, where one can be captured legally."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
            with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                result = call()
    finally:
        torch.cuda.set_stream(before)  # a capture that fails leaves its own current
        torch.cuda.synchronize()
    return graph, result


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
