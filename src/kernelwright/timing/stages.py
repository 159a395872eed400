"""Where the time goes: seconds of this process by stage, summed over its threads.

Stages nest, and the time of an inner stage is not counted for the outer one. A stage counts seconds
on the clock of the thread that waits. So the time of kernels that a stage only enqueued is counted
where their results are read.
"""

import threading
import time
from contextlib import ContextDecorator
from typing import Self


class _OpenStage(threading.local):
    def __init__(self) -> None:
        self.begun: list[tuple[float, list[float]]] = []
        """(begin, seconds of each stage inside) of the stages this thread is in."""
        self.waited_s = 0.0


class _Waiting:
    """The waiting of the process: seconds in which at least one of its threads waited."""

    def __init__(self) -> None:
        self._num_threads = 0
        self._begin_s = 0.0
        self._total_s = 0.0

    def begin(self) -> None:
        if self._num_threads == 0:
            self._begin_s = time.perf_counter()
        self._num_threads += 1

    def end(self) -> None:
        self._num_threads -= 1
        if self._num_threads == 0:
            self._total_s += time.perf_counter() - self._begin_s

    def until_now_s(self) -> float:
        open_s = time.perf_counter() - self._begin_s if self._num_threads else 0.0
        return self._total_s + open_s


_open = _OpenStage()
_waiting = _Waiting()
_lock = threading.Lock()
"""Guards `_waiting` and `_spent_s`."""
_spent_s: dict[str, float] = {}


class stage(ContextDecorator):
    """Counts the time of a block, or of every call of a function.

    Args:
        is_waiting: the stage waits for other processes, and is no work of ours (`worked_s`).
    """

    def __init__(self, name: str, *, is_waiting: bool = False) -> None:
        self.name, self.is_waiting = name, is_waiting

    def __enter__(self) -> Self:
        _open.begun.append((time.perf_counter(), []))
        if self.is_waiting:
            with _lock:
                _waiting.begin()
        return self

    def __exit__(self, *_error: object) -> None:
        begin_s, inside_s = _open.begun.pop()
        took_s = time.perf_counter() - begin_s
        if _open.begun:
            _open.begun[-1][1].append(took_s)
        if self.is_waiting:
            _open.waited_s += took_s
        with _lock:
            if self.is_waiting:
                _waiting.end()
            _spent_s[self.name] = _spent_s.get(self.name, 0.0) + took_s - sum(inside_s)


def worked_s() -> float:
    """Returns seconds on a clock for budgets, which stands still while this thread waits for other
    processes."""
    return time.monotonic() - _open.waited_s


def waited_s() -> float:
    """Returns seconds in which at least one thread of this process waited for other processes. A
    wait that still lasts counts until now."""
    with _lock:
        return _waiting.until_now_s()


def child_waited(name: str, seconds: float) -> None:
    """Counts the waiting of a child process, for whose end this thread waited, as the waiting of
    this thread: in the stage `name`, and no longer in the open stage."""
    _open.waited_s += seconds
    if _open.begun:
        _open.begun[-1][1].append(seconds)
    with _lock:
        _spent_s[name] = _spent_s.get(name, 0.0) + seconds


def take_spent() -> dict[str, float]:
    """Returns the seconds by stage since the last call."""
    with _lock:
        spent = dict(_spent_s)
        _spent_s.clear()
    return spent
