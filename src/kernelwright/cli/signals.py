"""Ctrl-C and SIGTERM: both interrupt the work, and the exit code names the signal."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALLED = 128
"""The exit code of a process that a signal ended is this plus the signal's number."""

_HEEDED = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []


@contextmanager
def interrupting() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into KeyboardInterrupt, and remember the number.

    Python runs handlers in the main thread alone; in other threads nothing changes.
    """
    _received.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in _HEEDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt


def _die_of_signals() -> None:
    """In a forked child: a signal ends the process, as for any process.

    A handler in Python would not do. Python notes the signal and runs the handler later. A child
    that has just begun to wait for a lock never runs the handler, and whoever ends the child waits
    for ever, as a pool of processes does.
    """
    for number in _HEEDED:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)


os.register_at_fork(after_in_child=_die_of_signals)


def exit_code() -> int:
    """The exit code for the signal that was received last; 0 where none was."""
    return SIGNALLED + _received[-1] if _received else 0
