"""A process that answers jobs one after another, and is replaced when one of them breaks it."""

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

import psutil

from kernelwright.core.errors import InfraError
from kernelwright.core.record import Record
from kernelwright.sandbox.shared import own_folders

GRACE_S = 10.0
"""Seconds in which the children of a killed process may clear up."""
ANSWER, IS_LAST = "answer", "is_last"
"""Fields of a reply: the answer to the job; whether the process ends after this reply."""
LOG_TAIL = 2_000
"""Characters of a dead worker's output that go into the error."""


class BenchWorker:
    """A process `python -m MODULE` that serves jobs (`bench.serving`). Use it as a context manager;
    the process starts with the first job.

    Args:
        module: the Python module that serves.
        log: file for the process's stderr; each new process writes it anew.
        gpu: the GPU that it sees, as in `CUDA_VISIBLE_DEVICES`; "": all GPUs.
        jobs: processes that share the cores. Each gets its share of threads, unless
            `OMP_NUM_THREADS` is set. With more threads than cores, busy waiting made writing on
            two cores ten times as slow.
        environment: variables of the process beside those of this process.
    """

    def __init__(
        self,
        module: str,
        log: Path,
        gpu: str = "",
        jobs: int = 1,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._module = module
        self._log = log
        threads = str(max(1, (os.cpu_count() or 1) // jobs))
        self._environment = {"OMP_NUM_THREADS": threads, **os.environ, **environment}
        if gpu:
            self._environment["CUDA_VISIBLE_DEVICES"] = gpu
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def run(self, job: Record, timeout_s: float) -> Record:
        """Send a job, and wait for its answer.

        Raises:
            InfraError: the process died, or took longer than `timeout_s`. The next job gets a new
                process.
        """
        process = self._begun(job)
        assert process.stdout is not None
        # The system refuses longer waits.
        wait_s = min(timeout_s, threading.TIMEOUT_MAX)
        readable, _, _ = select.select([process.stdout], [], [], wait_s)
        answer = process.stdout.readline() if readable else ""
        if answer:
            reply = json.loads(answer)
            if reply[IS_LAST]:
                self.end()
            return dict(reply[ANSWER])
        why = "the process died" if readable else f"no end within {timeout_s:g} s"
        self.end()
        raise InfraError(f"{why}: {self._log.read_text(errors='replace')[-LOG_TAIL:]}")

    def _begun(self, job: Record) -> "subprocess.Popen[str]":
        """The process, which has got the job."""
        line = json.dumps(job) + "\n"
        try:
            return self._sent(line)
        except BrokenPipeError:  # the process died after its last answer
            self.end()
            return self._sent(line)

    def _sent(self, line: str) -> "subprocess.Popen[str]":
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.flush()
        return process

    def _started(self) -> "subprocess.Popen[str]":
        # The pipe of a dead process takes text until the last of its threads is gone.
        if self._process is not None and _is_dead(self._process):
            self.end()
        if self._process is None:
            with self._log.open("w") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", self._module, str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=self._environment,
                )
        return self._process

    def end(self) -> None:
        """Kill the process, and wait for the end of all that the process started: guests would use
        the GPU beside the next job. The next job gets a new process."""
        if self._process is not None:
            started = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            self._process.wait()
            self._process = None
            # Servers of guests see the end of their parent, end their guests and remove folders.
            _, left = psutil.wait_procs(started, timeout=GRACE_S)
            for process in left:
                process.kill()
            own_folders.remove_stale()  # temporary folders of the process


def _is_dead(child: "subprocess.Popen[str]") -> bool:
    """Whether a child that nobody has waited for has ended."""
    return bool(psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
