"""A process that runs benchmark cases one after another, and is replaced when one breaks it."""

import json
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernelwright.core.record import Record

LOG_TAIL = 2_000
"""Characters of a dead worker's output that go into the case's record."""


class Worker:
    """Use as a context manager. The process starts with the first case."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._end()

    def run(self, spec: str, folder: Path, options: dict[str, Any], timeout_s: float) -> Record:
        """The case's findings; `infra` where the process died or took longer than `timeout_s`."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        job = {"spec": spec, "folder": str(folder), "options": options}
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        readable, _, _ = select.select([process.stdout], [], [], timeout_s)
        answer = process.stdout.readline() if readable else ""
        if answer:
            return dict(json.loads(answer))
        why = "the process died" if readable else f"no end within {timeout_s:g} s"
        self._end()
        message = f"{why}: {self._log.read_text(errors='replace')[-LOG_TAIL:]}"
        return {"correct": False, "has_triton": False, "code": "infra", "message": message}

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            with self._log.open("w") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "kernelwright.bench.case"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
