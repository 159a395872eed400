"""Many jobs on many workers: the protocol, and the bookkeeping that every executor shares.

A job is an id and plain JSON data, and so is its answer: nothing live crosses a process or a
machine. Every job is answered exactly once. If a worker dies, its job is given to another, at most
`MAX_LOSSES` times. Then the job ends as a failure of ours, which says nothing about the job.
"""

import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, Self

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record

MAX_LOSSES = 2
"""Times a job is given to another worker after one was lost with it."""
IN_FLIGHT = 2
"""Jobs a worker holds: it finds the next one at hand when it has answered one."""

Job = tuple[str, Record]
"""(id, data); ids are unique in a run."""


class Worker(Protocol):
    """The object that does the jobs. Trusted code, made once in each process by a factory."""

    def begin(self, job: Record) -> None:
        """Notes a job that has arrived and will be run soon, maybe while another runs in another
        thread. Preparations may start in the background. Never raises, returns at once."""
        ...

    def run(self, job: Record) -> Record:
        """Returns the job's answer. An exception is a failure of ours: the worker is replaced."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Factory:
    """How a process makes its worker: named, so that any process on any machine can."""

    target: str
    """"package.module:function"; called with the arguments by name."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Plain JSON data."""

    def make(self) -> Worker:
        module, _, name = self.target.partition(":")
        worker: Worker = getattr(import_module(module), name)(**self.arguments)
        return worker


@dataclass(frozen=True, slots=True)
class Done:
    """The one answer to a job."""

    id: str
    answer: Record | None
    """None where our side failed."""
    failure: str = ""


class Executor(Protocol):
    """A context manager; it has workers from when it is entered."""

    num_workers: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        """Yields answers in order of completion, each job's exactly once.

        `jobs` is read in a thread of its own, only a little ahead of the workers, and may wait for
        jobs that are yet to be made.

        Raises:
            UsageError: the factory refuses its arguments.
            InfraError: workers cannot be started.
        """
        ...


class Feed:
    """Reads an iterable in a thread, at most `ahead` jobs before they are taken."""

    def __init__(self, jobs: Iterable[Job], ahead: int) -> None:
        self._queue: queue.Queue[Job | BaseException | None] = queue.Queue(ahead)
        self._is_stopped = threading.Event()
        self._has_ended = False
        threading.Thread(target=self._read, args=(jobs,), daemon=True).start()

    def _read(self, jobs: Iterable[Job]) -> None:
        end: BaseException | None = None
        try:
            for job in jobs:
                self._queue.put(job)
                if self._is_stopped.is_set():
                    return
        except BaseException as error:  # it is raised where the jobs are taken
            end = error
        self._queue.put(end)

    def take(self) -> Job | None:
        """Returns the next job; None where no job is ready now. Raises what the iterable raised."""
        if self._has_ended:
            return None
        with suppress(queue.Empty):
            item = self._queue.get_nowait()
            if isinstance(item, BaseException):
                raise item
            self._has_ended = item is None
            return item
        return None

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    def stop(self) -> None:
        self._is_stopped.set()
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()


class Ledger:
    """Records which jobs wait, which are out with a worker, and which are answered."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._returned: deque[Job] = deque()
        self._out: dict[str, Record] = {}
        self._losses: dict[str, int] = {}

    @property
    def is_settled(self) -> bool:
        """Whether no job is out, none waits, and none will come."""
        return self._feed.has_ended and not self._out and not self._returned

    @property
    def may_have_more(self) -> bool:
        """Whether a job may be taken now or later, beside those that are out."""
        return bool(self._returned) or not self._feed.has_ended

    def take(self) -> Job | None:
        """Returns a job to hand out; None where no job is ready now."""
        job = self._returned.popleft() if self._returned else self._feed.take()
        if job is not None:
            if job[0] in self._out:
                raise InfraError(f"two jobs have the id {job[0]!r}")
            self._out[job[0]] = job[1]
        return job

    def answered(self, job_id: str, answer: Record) -> Iterator[Done]:
        """Yields the job's answer; nothing if the job has an answer already."""
        if self._out.pop(job_id, None) is not None:
            self._losses.pop(job_id, None)
            yield Done(job_id, answer)

    def lost(self, job_ids: Iterable[str], why: str) -> Iterator[Done]:
        """Notes that a worker is gone with its jobs, which then wait again. The first of them ran
        and may be to blame: it ends as a failure where that happened too often."""
        for position, job_id in enumerate(job_ids):
            if job_id not in self._out:
                continue
            data = self._out.pop(job_id)
            # The worker was at its first job; the others had not begun, and are not to blame.
            losses = self._losses.get(job_id, 0) + (position == 0)
            self._losses[job_id] = losses
            if losses > MAX_LOSSES:
                yield Done(job_id, None, f"lost {losses} workers; the last: {why}")
            else:
                self._returned.append((job_id, data))


class PoolWorker(Protocol):
    """One worker, seen from its pool."""

    is_ready: bool

    @property
    def held(self) -> Sized:
        """Its jobs."""
        ...

    def give(self, job: Job) -> None: ...


class JobPool(ABC):
    """The common part of executors: jobs go to the worker that has fewest, until every job is
    answered."""

    num_workers: int

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        """As `Executor.run`."""
        feed = Feed(jobs, ahead=IN_FLIGHT * self.num_workers)
        ledger = Ledger(feed)
        try:
            while True:
                self._hand_out(ledger)
                if ledger.is_settled:
                    return
                yield from self._collect(ledger)
                yield from self._end_overdue(ledger)
        finally:
            feed.stop()

    def _hand_out(self, ledger: Ledger) -> None:
        """Hands jobs to the workers that have fewest, so that the last jobs are spread too."""
        for num_held in range(IN_FLIGHT):
            for worker in self._workers:
                if not worker.is_ready or len(worker.held) != num_held:
                    continue
                job = ledger.take()
                if job is None:
                    return
                worker.give(job)

    def _note_start(self, worker: PoolWorker, message: Record) -> None:
        """Note that a worker is made; raise the error that its message describes."""
        if "usage" in message:
            raise UsageError(message["usage"])
        if "failure" in message:
            raise InfraError(f"a worker cannot be made:\n{message['failure']}")
        worker.is_ready = True

    @property
    @abstractmethod
    def _workers(self) -> Sequence[PoolWorker]: ...

    @abstractmethod
    def _collect(self, ledger: Ledger) -> Iterator[Done]:
        """Yields answers of workers; waits for messages for a while."""

    @abstractmethod
    def _end_overdue(self, ledger: Ledger) -> Iterator[Done]:
        """Replaces workers that take too long."""
