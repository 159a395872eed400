"""Guest side: ends a candidate's own Python code that computes without end.

A timer of CPU time raises an exception at the line that runs, and the guest lives on. This is for
loops with a bug. Code that catches everything runs into the host's limit of wall time.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

_AGAIN_S = 0.2
"""It raises again, should Python have dropped the first one (in a destructor, say)."""


class OwnCodeTimeout(BaseException):
    """Not an `Exception`: that, candidates catch."""


class OwnCode:
    """The CPU time that a candidate's code may take, while `of` is in force.

    Args:
        limit_s: None for no limit.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s

    @contextmanager
    def of(self, path: Path) -> Iterator[None]:
        """Limit the code of this file, with all that it calls.

        Raises:
            OwnCodeTimeout: the time is up.
        """
        if self._limit_s is None:
            yield
            return

        def end(_number: int, frame: FrameType | None) -> None:
            if _is_inside(frame, str(path)):  # not while the timer is being taken away again
                message = f"its Python code took more than {self._limit_s:g} s of CPU time"
                raise OwnCodeTimeout(message)

        before: Any = signal.signal(signal.SIGVTALRM, end)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, self._limit_s, _AGAIN_S)
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            signal.signal(signal.SIGVTALRM, before)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the timer inside, for work of ours that the code asked for."""
        left_s, _ = signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        try:
            yield
        finally:
            if left_s:
                signal.setitimer(signal.ITIMER_VIRTUAL, left_s, _AGAIN_S)


def _is_inside(frame: FrameType | None, file: str) -> bool:
    """Whether the code of this file runs, or code that it called."""
    while frame is not None:
        if frame.f_code.co_filename == file:
            return True
        frame = frame.f_back
    return False
