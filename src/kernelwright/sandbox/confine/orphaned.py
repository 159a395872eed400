"""Ends processes of ours when the process that they work for has ended.

They notice that their channel is closed. The kernel closes a killed process's channels, locks and
other files in no fixed order. The process is gone as a parent when all are closed.
"""

import fcntl
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from kernelwright.sandbox.confine import kernel
from kernelwright.sandbox.shared import own_folders

_POLL_S = 0.01

_heirs: list[Callable[[], bool]] = []


def add_heir(is_heir: Callable[[], bool]) -> None:
    """Lets another process remove the folders of this process after `exit_at_once`.

    Args:
        is_heir: whether that process runs now, and will see the end of this one.
    """
    _heirs.append(is_heir)


def exit_at_once() -> NoReturn:
    """Ends this process from any thread, whatever its other threads do, and removes its folders."""
    try:
        # An heir first ends the guests, which may write to the folders until then.
        if not any(is_heir() for is_heir in list(_heirs)):
            own_folders.remove_all()
    finally:
        os._exit(1)


def is_gone(parent: int, within_s: float) -> bool:
    """Waits for the end of this process's parent, with its locks; returns False if it still runs.

    Args:
        parent: its process id, from itself: it may have ended before this process began to run.
        within_s: seconds to wait at most.
    """
    end_s = time.monotonic() + within_s
    while os.getppid() == parent:
        if time.monotonic() >= end_s:
            return False
        time.sleep(_POLL_S)
    return True


def end_with_parent(parent: int) -> None:
    """Makes Linux kill this process when the thread that started this process ends.

    Args:
        parent: as of `is_gone`.
    """
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call above
        os._exit(1)


@contextmanager
def watched(channel: socket.socket, leave: Callable[[], NoReturn]) -> Iterator[None]:
    """Calls `leave` in the main thread as soon as anything arrives on the channel, or the other
    side is gone, while the code inside runs. This uses a signal and not a thread, because the
    caller forks later."""

    def look(_number: int = 0, _frame: FrameType | None = None) -> None:
        with suppress(BlockingIOError):
            with suppress(ConnectionResetError):
                channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            signal.signal(signal.SIGIO, signal.SIG_IGN)  # once is enough
            leave()

    before = signal.signal(signal.SIGIO, look)
    flags = fcntl.fcntl(channel, fcntl.F_GETFL)
    fcntl.fcntl(channel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(channel, fcntl.F_SETFL, flags | os.O_ASYNC)
    try:
        look()  # there is no signal for what came earlier
        yield
    finally:
        fcntl.fcntl(channel, fcntl.F_SETFL, flags)
        signal.signal(signal.SIGIO, before)
