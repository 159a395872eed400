"""Guest side: a second observer of a judged call, below Python.

Python code in the same process can lift a dispatch mode (watch.CallWatch), or rewrite its notes.
PyTorch's own operator observer, in C++, still sees every operator of the thread. An operator counts
if either observer saw it, so a candidate would have to deceive both. Neither sees another thread,
so the start of a thread counts as well.
"""

import _thread
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Self

import torch
from torch.autograd.profiler import record_function

_autograd: Any = torch.autograd
_start: Any = torch._C._autograd._enable_profiler_legacy
_stop: Any = torch._C._autograd._disable_profiler_legacy
_CONFIG = _autograd.ProfilerConfig(
    _autograd.ProfilerState.CPU,
    *[False] * 5,  # shapes, memory, stacks, FLOPs, modules
    torch._C._profiler._ExperimentalConfig(),
)


STOPPED = "witness::stopped"
"""Among the operators where somebody stopped the observer in between."""

STARTED = "witness::thread"
"""Among the operators where a thread was started."""

_OWN_WORK = secrets.token_hex(8)
"""The mark of operators by which the interpreter computes what a kernel asks for."""

_STARTERS = ("start_new_thread", "start_new", "start_joinable_thread")
_starts: list[None] = []


@cache
def count_thread_starts() -> None:
    """Counts the starts of threads from here on, in this process. (Python raises audit events for
    them from 3.12 on only.)"""
    for name in _STARTERS:
        start = getattr(_thread, name, None)
        if start is None:
            continue

        def counted(*args: Any, start: Any = start, **kwargs: Any) -> Any:
            _starts.append(None)
            return start(*args, **kwargs)

        setattr(_thread, name, counted)
        if hasattr(threading, f"_{name}"):  # its own reference
            setattr(threading, f"_{name}", counted)


class Witness:
    """While active, counts the thread's operators by name: "aten::relu"."""

    def __init__(self) -> None:
        self._operators: Counter[str] = Counter()
        self._mark = secrets.token_hex(8)
        self._num_started = len(_starts)

    def __enter__(self) -> Self:
        try:
            _start(_CONFIG)
        except RuntimeError:  # an observer still runs: one of a call that ended in a fault
            _stop()
            _start(_CONFIG)
        with record_function(self._mark):
            pass
        return self

    def __exit__(self, *_: object) -> None:
        self._collect()

    def _collect(self) -> None:
        try:
            events = [name for thread in _stop() for name in _of_others(thread)]
        except RuntimeError:  # it does not run
            events = []
        # Whoever stops the observer, or starts it anew, loses the mark of the beginning.
        if self._mark not in events:
            self._operators[STOPPED] += 1
        if len(_starts) != self._num_started:
            self._operators[STARTED] += 1
        self._operators.update(name for name in events if name.startswith("aten::"))

    def seen(self) -> dict[str, int]:
        return dict(self._operators)


def _of_others(events: Iterable[Any]) -> Iterator[str]:
    """Yields the names of a thread's events, without the interpreter's own work."""
    depth = 0
    """Events that have begun within the interpreter's own work, and not ended."""
    for event in events:
        kind = event.kind()
        if depth or event.name() == _OWN_WORK:
            depth += {"push": 1, "pop": -1}.get(kind, 0)
        elif kind != "pop":
            yield event.name()


def own_work() -> AbstractContextManager[object]:
    """Returns a context for operators by which the interpreter computes: observers leave them
    out."""
    return record_function(_OWN_WORK)
