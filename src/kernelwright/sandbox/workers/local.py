"""Workers as processes of this machine: long-lived, replaced when they die or take too long."""

import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Self

from kernelwright.core.errors import InfraError
from kernelwright.sandbox.host import launchers
from kernelwright.sandbox.shared import wire
from kernelwright.sandbox.workers.executor import IN_FLIGHT, Done, Factory, Job, JobPool, Ledger

_POLL_S = 0.01
_SEND_S = 60.0
_END_S = 20.0
_CHANNEL_BYTES = 1 << 22
_MAX_FAILED_STARTS = 3
"""Processes in a row that die before their worker is made."""

START_S = 300.0
"""The seconds that a process may take to make its worker."""


class LocalExecutor(JobPool):
    """An `Executor` on this machine.

    Args:
        factory: of the workers; they are made once in each process.
        num_workers: processes.
        job_s: seconds a job may take before its worker is replaced.
        gpus: as `CUDA_VISIBLE_DEVICES` names them; each worker sees one of them, as many workers
            each. Empty: whatever there is.
    """

    def __init__(
        self,
        factory: Factory,
        num_workers: int,
        *,
        job_s: float = 900.0,
        gpus: Sequence[str] = (),
    ) -> None:
        self._factory, self._job_s = factory, job_s
        self._gpus = list(gpus) or [""]
        self._processes: list[_Process] = []
        self.num_workers = num_workers
        self._failed_starts = 0

    def __enter__(self) -> Self:
        launchers.folder()  # one for all of them
        self._processes = [
            _Process(self._factory, self._gpus[number % len(self._gpus)])
            for number in range(self.num_workers)
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.channel.close()  # all of them end at the same time
        for process in self._processes:
            process.end(_END_S if error[0] is None else 0.0)
        self._processes = []

    @property
    def _workers(self) -> "Sequence[_Process]":
        return self._processes

    def _collect(self, ledger: Ledger) -> Iterator[Done]:
        """The next messages of workers; waits until one comes, or a job may have come."""
        is_short = any(p.is_ready and len(p.held) < IN_FLIGHT for p in self._processes)
        with selectors.DefaultSelector() as selector:
            for process in self._processes:
                selector.register(process.channel, selectors.EVENT_READ, process)
            ready = selector.select(_POLL_S if is_short and ledger.may_have_more else 1.0)
        for key, _ in ready:
            yield from self._hear(key.data, ledger)

    def _hear(self, process: "_Process", ledger: Ledger) -> Iterator[Done]:
        try:
            message = process.hear()
        except (wire.Closed, wire.MalformedFrame, TimeoutError, OSError) as error:
            yield from self._replace(process, ledger, process.death(error))
            return
        if "ready" in message:
            self._note_start(process, message)
            self._failed_starts = 0
        elif "answer" in message:
            process.next_one()
            yield from ledger.answered(message["id"], message["answer"])
        else:
            why = str(message.get("failure") or message.get("usage"))
            yield from self._replace(process, ledger, why)

    def _replace(self, process: "_Process", ledger: Ledger, why: str) -> Iterator[Done]:
        if not process.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise InfraError(f"workers die while they start: {why}")
        process.end(0.0)
        self._processes[self._processes.index(process)] = _Process(self._factory, process.gpu)
        yield from ledger.lost(process.held, why)

    def _end_overdue(self, ledger: Ledger) -> Iterator[Done]:
        for process in list(self._processes):
            limit_s = self._job_s if process.is_ready else START_S
            is_busy = bool(process.held) or not process.is_ready
            if is_busy and time.monotonic() - process.since_s > limit_s:
                yield from self._replace(process, ledger, f"no answer within {limit_s:g} s")


class _Process:
    """One worker's process, seen from the executor."""

    def __init__(self, factory: Factory, gpu: str) -> None:
        self.gpu = gpu
        self.is_ready = False
        self.held: list[str] = []
        """Ids of its jobs; it is at the first."""
        self.since_s = time.monotonic()
        """When it began to start, or began its first job."""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        self.channel, theirs = socket.socketpair()
        for end in (self.channel, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CHANNEL_BYTES)
        code = (
            f"import sys; sys.path[:] = {[path or os.getcwd() for path in sys.path]!r}; "
            "from kernelwright.sandbox.workers.process import main; "
            f"main({theirs.fileno()}, {os.getpid()})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=os.environ | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}),
                start_new_session=True,  # Ctrl-C is for the executor, which ends its workers
            )
        self._send({"target": factory.target, "arguments": factory.arguments})

    def give(self, job: Job) -> None:
        if not self.held:
            self.since_s = time.monotonic()
        self.held.append(job[0])
        self._send({"id": job[0], "job": job[1]})

    def next_one(self) -> None:
        """It answered its first job."""
        self.held.pop(0)
        self.since_s = time.monotonic()

    def hear(self) -> wire.Header:
        deadline_s = time.monotonic() + _SEND_S
        return wire.receive(self.channel, max_payload_bytes=0, deadline_s=deadline_s)[0]

    def _send(self, message: wire.Header) -> None:
        """A worker that is gone is noticed when it is heard next."""
        with suppress(wire.Closed, TimeoutError):
            wire.send(self.channel, message, deadline_s=time.monotonic() + _SEND_S)

    def death(self, error: BaseException) -> str:
        """Why it is gone, with the end of what it printed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        self._log.seek(0)
        tail = self._log.read()[-2_000:].decode(errors="replace").strip()
        how = f"exit status {self._process.poll()}, {type(error).__name__}"
        return f"the worker died ({how})" + (f": {tail}" if tail else "")

    def end(self, grace_s: float) -> None:
        """Close its channel, which ends it; kill it where it does not end within `grace_s`."""
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        self._process.kill()
        self._process.wait()
        self._log.close()
