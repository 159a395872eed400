"""The process of one guest, seen from the host: how it ends, and why it died."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from kernelwright.core.errors import GuestLost
from kernelwright.sandbox.confine.kernel import signal_name
from kernelwright.sandbox.shared.contract import GuestFault

_END_S = 30.0
_DEATH_S = 0.5
"""From the channel's end to the process's, where it dies by itself."""


class GuestProcess:
    """The process of a guest.

    Args:
        reap: asks its parent for the exit status (negative: signal); None while it runs.
    """

    def __init__(self, pid: int, reap: Callable[[], int | None]) -> None:
        self.pid, self._reap = pid, reap

    def end(self) -> None:
        """Kills the process group, and waits until the process is gone.

        Raises:
            GuestLost: it does not go.
        """
        self._kill_group()
        _signal(os.kill, self.pid)  # in case it has not made its group yet
        if self._wait(_END_S) is None:
            raise GuestLost(f"guest {self.pid} does not end")

    def death(self) -> GuestFault:
        """Returns the reason why the process ended, once its channel has closed. A process that
        still runs is ended."""
        status = self._wait(_DEATH_S)
        if status is None:
            self.end()
            return GuestFault("crashed", "the guest closed its channel", detail="channel closed")
        self._kill_group()  # what it left there
        if status >= 0:
            message = f"the process exited with code {status} before it answered"
            return GuestFault("crashed", message, detail=f"exit code {status}")
        name = signal_name(-status)
        if name == "SIGXCPU":
            return GuestFault("timeout", "CPU time is used up", detail=name)
        return GuestFault("crashed", f"the process died of {name}", detail=name)

    def _kill_group(self) -> None:
        _signal(os.killpg, self.pid)

    def _wait(self, grace_s: float) -> int | None:
        """Returns the exit status once the process has ended, None if it does not end in time."""
        end_s, pause_s = time.monotonic() + grace_s, 0.0005
        while (status := self._reap()) is None and time.monotonic() < end_s:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.02)
        return status


def _signal(send: Callable[[int, int], None], pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        send(pid, signal.SIGKILL)
