"""Where judging happens: the guests of a device, kept for a while or not, and the GPU's lock."""

from contextlib import AbstractContextManager, nullcontext, suppress

import torch

from kernelwright.core.errors import GuestLost
from kernelwright.sandbox.forkserver import ForkServer, shared
from kernelwright.sandbox.guest import Guest, Limits
from kernelwright.timing.clock import gpu_lock
from kernelwright.verify.program_task import ProgramTask, for_interpreter
from kernelwright.verify.task import Task


class LongLived:
    """One guest for candidates in a row: the same until it is dead, retired or worn.

    Args:
        max_candidates: it may run, or hold, before it is replaced.
        trusted: as for `ForkServer.guest`.
    """

    def __init__(
        self,
        server: ForkServer,
        limits: Limits,
        max_candidates: int,
        *,
        trusted: bool = False,
    ) -> None:
        self._server, self._limits, self._trusted = server, limits, trusted
        self._max_candidates = max_candidates
        self._guest: Guest | None = None
        self._num_candidates = 0
        self.num_started = 0
        """Guests so far."""

    def next(self) -> Guest:
        """The guest for one more candidate.

        Raises:
            InfraError: none can be started.
        """
        worn = self._num_candidates >= self._max_candidates
        if self._guest is not None and (worn or not self._guest.alive):
            self.retire()
        if self._guest is None:
            self._guest = self._server.guest(self._limits, trusted=self._trusted)
            self.num_started += 1
        self._num_candidates += 1
        return self._guest

    def retire(self) -> None:
        """End the guest; the next candidate gets another."""
        self._num_candidates = 0
        if self._guest is not None:
            guest, self._guest = self._guest, None
            with suppress(GuestLost):  # gone is gone
                guest.close()


def server(device: torch.device) -> ForkServer:
    return shared(device.type)


def sharing(device: torch.device) -> AbstractContextManager[None]:
    """Untimed work keeps off the GPU while another process has it alone to take times."""
    if device.type != "cuda":
        return nullcontext()
    return gpu_lock(device.index or 0, shared=True)


def fitting(task: Task, device: torch.device, *, is_generic: bool) -> Task:
    """The interpreter judges a big program on smaller sizes of the same structure."""
    if device.type == "cuda" or not isinstance(task, ProgramTask):
        return task
    return for_interpreter(task, is_generic=is_generic)
