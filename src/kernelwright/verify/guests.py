"""Where judging happens: the guests of a device, kept for a while or not, and the GPU's lock."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from typing import TypeVar

import torch

from kernelwright.core.errors import GuestLost
from kernelwright.core.verdict import Code, Stage
from kernelwright.sandbox.host.forkserver import ForkServer, shared
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.host.probe import check
from kernelwright.sandbox.shared.contract import GuestFault
from kernelwright.timing.clock import gpu_lock
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.tasks.program_task import ProgramTask, for_interpreter
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.trial import Trial

SPARE_AFTER = 4
"""Candidates that a guest runs before a spare is started: not while everything else starts."""

T = TypeVar("T")


def once_more(step: Callable[[], T]) -> T:
    """Returns the result of the step, which is tried again where a guest was lost for no
    candidate's fault.

    Raises:
        GuestLost: a guest was lost twice.
    """
    try:
        return step()
    except GuestLost:
        return step()


def concluded(step: Callable[[], Trial], begun: Trial, device: torch.device) -> Trial:
    """Returns the trial that the step gives, and decides who is at fault where the guest is lost.

    A fault that our own side could have is the candidate's only if a control of ours works in a new
    guest. Otherwise a policy could learn to break the host.

    Args:
        begun: the trial before the step.

    Raises:
        InfraError: the control fails too.
    """
    try:
        trial = once_more(step)
    except GuestLost as error:
        check(device.type)
        trial = deepcopy(begun)
        message = f"every guest that ran the candidate was lost: {error}"
        trial.rejection = Rejected(Stage.RUN, Code.CRASHED, message)
        return trial
    if trial.code is Code.MALFORMED:
        check(device.type)
    return trial


class LongLived:
    """One guest for candidates in a row: the same until it is dead, retired or worn.

    Args:
        start: makes a guest; in another thread where a spare is kept.
        max_candidates: candidates that a guest may run, or hold, before it is replaced.
        keeps_spare: another guest is started ahead, so that no candidate waits for its start.
    """

    def __init__(
        self, start: Callable[[], Guest], max_candidates: int, *, keeps_spare: bool = False
    ) -> None:
        self._start, self._max_candidates = start, max_candidates
        self._keeps_spare = keeps_spare
        self._guest: Guest | None = None
        self._spare: Future[Guest] | None = None
        self._num_candidates = 0
        self.num_started = 0
        """Guests that were put to use so far."""

    @property
    def is_worn(self) -> bool:
        """The next candidate gets another guest."""
        return self._num_candidates >= self._max_candidates

    @property
    def has_guest(self) -> bool:
        """A guest is at hand, and alive."""
        return self._guest is not None and self._guest.alive

    def next(self) -> Guest:
        """Returns the guest for one more candidate.

        Raises:
            InfraError: no guest can be started.
        """
        if self._guest is not None and (self.is_worn or not self._guest.alive):
            self.retire()
        self._num_candidates += 1
        guest = self.begin()
        if self._keeps_spare and self._spare is None and self._num_candidates >= SPARE_AFTER:
            self._spare = _in_background(self._start)
        return guest

    def begin(self) -> Guest:
        """Starts a guest if there is none, so that the next candidate need not wait."""
        if self._guest is None:
            self._guest = self._take_spare() or self._start()
            self.num_started += 1
        return self._guest

    def retire(self) -> None:
        """Ends the guest; the next candidate gets another."""
        self._num_candidates = 0
        if self._guest is not None:
            guest, self._guest = self._guest, None
            with suppress(GuestLost):  # gone is gone
                guest.close()

    def close(self) -> None:
        """Ends the guest and the spare; others are started when they are needed."""
        self.retire()
        if (spare := self._take_spare()) is not None:
            with suppress(GuestLost):
                spare.close()

    def _take_spare(self) -> Guest | None:
        """Returns the spare guest; None where there is none, or where it has died or changed while
        it waited."""
        if self._spare is None:
            return None
        spare, self._spare = self._spare, None
        try:
            guest = spare.result()
        except GuestLost:
            return None
        try:
            guest.attest()
        except (GuestLost, GuestFault):
            with suppress(GuestLost):
                guest.close()
            return None
        return guest


def _in_background(start: Callable[[], Guest]) -> Future[Guest]:
    pool = ThreadPoolExecutor(1, "spare")
    started = pool.submit(start)
    pool.shutdown(wait=False)  # the thread ends with its only task
    return started


def server(device: torch.device) -> ForkServer:
    """Returns the process's fork server for guests on this device."""
    return shared(device.type)


def sharing(device: torch.device) -> AbstractContextManager[None]:
    """Returns a lock for untimed work, which waits while another process takes times alone on the
    GPU."""
    if device.type != "cuda":
        return nullcontext()
    return gpu_lock(device.index or 0, shared=True)


def computing(device: torch.device) -> AbstractContextManager[None]:
    """Returns a lock as `sharing`, for work of seconds. Judges go on beside it, and a process that
    takes times waits apart."""
    if device.type != "cuda":
        return nullcontext()
    return gpu_lock(device.index or 0, shared=True, for_long=True)


def fitting(task: Task, device: torch.device, *, is_generic: bool) -> Task:
    """Returns the task at sizes that the device can judge: on a CPU the interpreter gets a big
    program at smaller sizes of the same structure. `is_generic`: as of `for_interpreter`."""
    if device.type == "cuda" or not isinstance(task, ProgramTask):
        return task
    return for_interpreter(task, is_generic=is_generic)
