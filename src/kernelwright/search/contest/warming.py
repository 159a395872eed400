"""Wholes of ours in guests: loaded and compiled side by side, before their times are taken."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelwright.core.candidate import uses_compile
from kernelwright.core.errors import GuestLost, OutOfTime
from kernelwright.search.contest.side_by_side import MESSAGE_LIMIT, SEED, WARM_CALLS
from kernelwright.timing.deadline import NEVER, Deadline
from kernelwright.timing.stages import waited_s, worked_s
from kernelwright.verify.guests import computing, server
from kernelwright.verify.judging import default_limits
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times.sides import GuestCalls

NAME = "candidate"
MAX_GUESTS = 4
"""Guests that compile at once: each needs a core."""
CONTEXT_BYTES = 600 << 20
"""The GPU memory that CUDA takes for a process, in bytes."""
OUT_OF_TIME = "no time was left to compile it"


class GuestFailed(Exception):
    """A whole that was ready failed in a timed call."""

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT])
        self.name = name


class GuestTurns:
    """A contender (`timing.turns`) that runs a whole in its guest. A failure names the whole.

    Raises:
        GuestFailed: by each method, where the whole or its guest fails.
    """

    def __init__(self, name: str, calls: GuestCalls) -> None:
        self._name, self._calls = name, calls

    def prepare(self, inputs: list[Any], seed: int) -> None:
        with self._named():
            self._calls.prepare(inputs, seed)

    def time(self) -> float:
        with self._named():
            return self._calls.time()

    def release(self) -> None:
        with self._named():
            self._calls.release()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (Rejected, GuestLost) as error:
            raise GuestFailed(self._name, error) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    """When a part of a contest ends. Seconds in which any thread of this process waits for other
    users of the GPU do not count."""

    begin_s: float
    """When the contest began, on `time.monotonic`."""
    for_s: float
    """Seconds of work."""
    wall_s: float
    """The most seconds, with all waiting."""

    def deadline(self) -> Deadline:
        """Returns the same end for the thread that calls, whose later waiting does not count."""
        spent_s = time.monotonic() - self.begin_s
        left_s = self.for_s - spent_s + waited_s()
        return Deadline(worked_s() + left_s, clock_s=self.begin_s + self.wall_s)


@dataclass(slots=True)
class Warming:
    """Starts a guest for each whole, and has the whole compile there.

    Args:
        inputs: of the task, on the device.
        num_guests: at once; as many as the device has memory for.
        ends: a whole that is not ready by then fails.
    """

    task: Task
    device: torch.device
    inputs: Sequence[Any]
    num_guests: int
    ends: Ends
    _loading: threading.Lock = field(default_factory=threading.Lock)

    def warm(
        self, wholes: Mapping[str, str], open_guests: ExitStack
    ) -> tuple[dict[str, GuestTurns], dict[str, str]]:
        """Wholes that are ready to be timed, and why others are not, by name.

        Args:
            wholes: texts by name, the most promising first.
            open_guests: ends the guests when it is closed.
        """
        ready: dict[str, GuestTurns] = {}
        failed: dict[str, str] = {}
        with ThreadPoolExecutor(self.num_guests) as pool:
            jobs = {
                name: pool.submit(self._warmed, source, open_guests)
                for name, source in wholes.items()
            }
        for name, job in jobs.items():
            try:
                ready[name] = GuestTurns(name, job.result())
            except OutOfTime:
                failed[name] = OUT_OF_TIME
            except (Rejected, GuestLost) as error:
                failed[name] = f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]
        return ready, failed

    def _warmed(self, source: str, open_guests: ExitStack) -> GuestCalls:
        """
        Raises:
            Rejected: the whole cannot be loaded, or a call fails.
            GuestLost: the guest ended.
            OutOfTime: the deadline passed.
        """
        self.ends.deadline().check()
        compiles = uses_compile(source)
        guest = server(self.device).guest(default_limits(self.device), compiles=compiles)
        open_guests.enter_context(guest)
        session = Session(self.task, guest, self.device)
        calls = GuestCalls(session, NAME)
        # Compiling lasts for seconds. The GPU's lock is shared meanwhile, and judges go on.
        with computing(self.device):
            # Drawing weights uses the global random generators: two threads must not load at once.
            with self._loading:
                guest.deadline = self.ends.deadline()  # the thread before may have waited
                session.load(NAME, source)
                session.restart(NAME)
                calls.prepare(list(self.inputs), SEED)
            for _ in range(WARM_CALLS):
                calls.time()
            calls.release()
        guest.deadline = NEVER  # the contest's process has a deadline of its own
        return calls


def num_guests(device: torch.device, call_bytes: int) -> int:
    """Guests that may call the task at once: at most MAX_GUESTS, and as many as find memory.

    Args:
        call_bytes: memory that a process needs to call the task, beside its CUDA context.
    """
    if device.type != "cuda":
        return MAX_GUESTS
    # Memory that PyTorch has cached in this process would count as taken.
    torch.cuda.empty_cache()
    free_bytes, _ = torch.cuda.mem_get_info(device)
    return max(1, min(MAX_GUESTS, free_bytes // (call_bytes + CONTEXT_BYTES)))
