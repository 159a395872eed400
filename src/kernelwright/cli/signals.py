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
    owner = os.getpid()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a forked child dies of the signal as any process does
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        _received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _HEEDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code() -> int:
    """The exit code for the signal that was received last; 0 where none was."""
    return SIGNALLED + _received[-1] if _received else 0
