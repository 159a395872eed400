"""torch.compile with CUDA graphs: its mode "reduce-overhead", for modules that wait for launches.
`search.module.original` copies the source of `replayed` into optimized.py, so that function uses
no other names than those that `original.GRAPH_IMPORTS` imports."""

import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from kernelwright.search.contest.graphed import WAITS
from kernelwright.timing.cuda_timer import PAUSE_MS, stopwatch

Call = Callable[..., Any]

NUM_CALLS = 5
PAUSE_FACTOR = 2.0
"""A pause of the device is this many times what the host needs to launch a call."""


def replayed(call: Call, options: dict[str, Any]) -> Call:
    """A function that calls `torch.compile(call)` with CUDA graphs. A replay overwrites the results
    of the replay before, so the function returns copies. Threads other than the main thread run
    `call` itself."""
    options = {"triton.cudagraphs": True, **options}
    compiled = torch.compile(call, options=options)

    def replay(*args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return call(*args, **kwargs)  # PyTorch keeps these graphs for the main thread alone
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        return tree_map_only(torch.Tensor, torch.clone, compiled(*args, **kwargs))

    return replay


def waits_for_launches(call: Call, inputs: list[Any]) -> bool:
    """Whether a call takes clearly longer than its kernels, because the device waits for launches.

    The caller must hold the GPU alone.
    """
    time_ms = stopwatch()
    begin_s = time.perf_counter()
    call(*inputs)
    pause_ms = PAUSE_MS + PAUSE_FACTOR * 1e3 * (time.perf_counter() - begin_s)
    # During the pause the host queues all launches, so that the second time is that of the kernels.
    with_launches_ms, kernels_ms = (
        median(time_ms(lambda: call(*inputs), pause).time_ms for _ in range(NUM_CALLS))
        for pause in (0.0, pause_ms)
    )
    return kernels_ms < WAITS * with_launches_ms


def can_be_copied(result: object) -> bool:
    """Whether all results of a call are tensors and constants in containers that PyTorch knows, so
    that `replayed` finds every tensor."""
    plain = (torch.Tensor, int, float, str, type(None))  # bool is an int
    return all(isinstance(leaf, plain) for leaf in tree_leaves(result))
