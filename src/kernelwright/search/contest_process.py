"""The process in which a contest takes place. PyTorch, its compiler and the server of guests take
about ten seconds to load, so the process is started while fragments are tuned."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import Self

from kernelwright.core.record import Record
from kernelwright.timing.stages import stage

COMMAND = (sys.executable, "-m", "kernelwright.search.contest_child")
MESSAGE_LIMIT = 200
"""Characters of an error that go into a message."""


class ContestProcess:
    """A context that ends the process with all that the process started. Each contest takes a
    process of its own: after an answer the next one starts another.

    Args:
        command: of the process. It reads a job from its standard input, as one JSON object, and
            writes answers, one a line; the last one counts.
    """

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the process, which waits for its job."""
        self._begun()

    def close(self) -> None:
        """End the process, if one runs."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes its pipes, and waits
            _kill(process)

    @stage("beside torch.compile")
    def answer(self, job: Record, for_s: float) -> Record | str:
        """What the process answers, or a sentence that says why there is no answer.

        Args:
            for_s: seconds from now, after which the process is ended.

        Raises:
            KeyboardInterrupt: after the process was ended.
        """
        process = self._begun()
        try:
            answer, log = process.communicate(json.dumps(job), timeout=for_s)
            is_late = False
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            _kill(process)
        if is_late:
            answer, log = process.communicate()  # what was written before
        self.close()
        lines = answer.splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # cut off in the middle
        if lines:  # of a process that failed later, too: PyTorch and torch.compile were timed
            return dict(json.loads(lines[-1]))
        if is_late:
            return (
                f"torch.compile was not timed: it was not ready after {for_s:.0f} s, when the"
                " budget ended."
            )
        reason = (log.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        return f"torch.compile was not timed: the process that times it failed: {short(reason)}"

    def _begun(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",  # what the user's code prints, or what a kill cut off
                start_new_session=True,  # Inductor's workers are killed with it
            )
        return self._process


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def short(text: str) -> str:
    """The text on one line, at most MESSAGE_LIMIT characters."""
    return " ".join(text.split())[:MESSAGE_LIMIT]
