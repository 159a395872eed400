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


_open = _OpenStage()
_lock = threading.Lock()
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
        return self

    def __exit__(self, *_error: object) -> None:
        begin_s, inside_s = _open.begun.pop()
        took_s = time.perf_counter() - begin_s
        if _open.begun:
            _open.begun[-1][1].append(took_s)
        if self.is_waiting:
            _open.waited_s += took_s
        with _lock:
            _spent_s[self.name] = _spent_s.get(self.name, 0.0) + took_s - sum(inside_s)


def worked_s() -> float:
    """Returns seconds on a clock for budgets, which stands still while this thread waits for other
    processes."""
    return time.monotonic() - _open.waited_s


def take_spent() -> dict[str, float]:
    """Returns the seconds by stage since the last call."""
    with _lock:
        spent = dict(_spent_s)
        _spent_s.clear()
    return spent
