"""Ctrl-C and SIGTERM during a search: both end the search, and neither loses its result."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C is."""


@contextmanager
def terminating() -> Iterator[None]:
    """SIGTERM raises `Terminated` in here. Python runs handlers in the main thread alone; in other
    threads nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def signal_name(interruption: KeyboardInterrupt | None) -> str | None:
    """ "SIGINT", "SIGTERM", or None without an interruption."""
    if interruption is None:
        return None
    return "SIGTERM" if isinstance(interruption, Terminated) else "SIGINT"
