"""The processes that a process has started: they end with that process."""

import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

GRACE_S = 10.0
"""Seconds in which processes may clear up before they are killed."""


@contextmanager
def family_ended(process_id: int) -> Iterator[None]:
    """Wait for the end of all descendants of a process after the block, which ends the process.

    Servers of guests see the end of their parent, end their guests and remove their folders.
    Descendants that still run after `GRACE_S` are killed.
    """
    with ExitStack() as handles:
        # Handles, because the system uses numbers of processes again.
        family = [handle for pid in _descendants(process_id) for handle in _opened(pid, handles)]
        yield
        _end(family)


def _opened(process_id: int, handles: ExitStack) -> Iterator[int]:
    """A handle of a process, unless the process has ended."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(process_id)
        handles.callback(os.close, handle)
        yield handle


def _end(family: list[int]) -> None:
    """Wait until all processes have ended.

    Args:
        family: handles of the processes.
    """
    poll = select.poll()
    for handle in family:
        poll.register(handle, select.POLLIN)  # readable: the process has ended
    left, end_s = set(family), time.monotonic() + GRACE_S
    while left and (left_s := end_s - time.monotonic()) > 0:
        for handle, _ in poll.poll(1000 * left_s):
            poll.unregister(handle)
            left.remove(handle)
    for handle in left:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)


def _descendants(process_id: int) -> set[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            # The name of a process, in parentheses, may hold spaces.
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
    family = {process_id}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family - {process_id}
