"""The process in which a contest takes place. PyTorch, its compiler and the server of guests take
about ten seconds to load, so the process is started while fragments are tuned."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kernelwright.core.record import Record
from kernelwright.timing.deadline import Deadline
from kernelwright.timing.stages import child_waited, stage

COMMAND = (sys.executable, "-m", "kernelwright.search.contest.child")
SENTENCE_LIMIT = 200
"""Characters of an error that go into a sentence for the user."""
WAITED = "waited_for_others_s"
"""The field of a line that is no answer: seconds that the process has waited for other users of the
GPU until then."""
TOLD_WITHIN_S = 1.0
"""Seconds after which the process has surely told that it waits."""


class ContestProcess:
    """Starts the process, gives it one job, and ends it with all that it started. Each contest
    takes a process of its own: after an answer the next contest starts another.

    Args:
        command: of the process. It reads a job from its standard input, as one JSON object, and
            writes answers, one a line; the last one counts. Lines with `WAITED` may come between.
    """

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process, which waits for its job."""
        self._running()

    def close(self) -> None:
        """End the process, if one runs."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes its pipes, and waits
            kill_group(process)

    @stage("beside torch.compile")
    def answer(self, job: Record, deadline: Deadline) -> Record | str:
        """The answer of the process, or a sentence that says why there is no answer.

        Args:
            job: the process also gets "for_s" and "wall_s", its seconds of work and on the clock.
            deadline: when the process is ended. Time in which the process waits for other users of
                the GPU counts as waiting of this thread.

        Raises:
            KeyboardInterrupt: after the process was ended.
        """
        # Mostly the process was started ahead. Else the contest pays for its imports.
        process = self._running()
        for_s, wall_s = deadline.left_s(), deadline.clock_s - time.monotonic()
        job = job | {"for_s": for_s, "wall_s": wall_s}
        answer, log, is_late = communicated(process, job, for_s, wall_s=wall_s)
        self.close()
        lines = _lines(answer)
        child_waited("wait for the GPU", _waited_s(lines))
        answers = [line for line in lines if WAITED not in line]
        if answers:  # even if the process failed afterwards: the first line has PyTorch's times
            return answers[-1]
        if is_late:
            return (
                f"torch.compile was not timed: it was not ready after {for_s:.0f} s, when the"
                " budget ended."
            )
        reason = short(reason_of(process, log))
        return f"torch.compile was not timed: the process that times it failed: {reason}"

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._process = started(self._command, stdout=subprocess.PIPE)
        return self._process


def started(command: Sequence[str], **options: Any) -> "subprocess.Popen[str]":
    """Start a process that reads a job from its standard input, with further options of Popen."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",  # what the user's code prints, or what a kill cut off
        start_new_session=True,  # Inductor's workers are killed with it
        **options,
    )


def communicated(
    process: "subprocess.Popen[str]", job: Record, for_s: float, *, wall_s: float | None = None
) -> tuple[str, str, bool]:
    """Give a process its job, wait for its end, and kill it after `for_s` seconds.

    Args:
        wall_s: if given, the process writes lines of JSON, some of which tell how long it has
            waited (`WAITED`). It has these seconds in addition, but at most `wall_s` in all.

    Returns:
        Output and errors, and whether the process was killed.
    """
    begin_s, allowed_s = time.monotonic(), for_s
    text: str | None = json.dumps(job)
    try:
        while True:
            left_s = max(begin_s + allowed_s - time.monotonic(), 0.0)
            try:
                return *process.communicate(text, timeout=left_s), False
            except subprocess.TimeoutExpired as late:
                text = None  # the job is written, or still on its way
                if wall_s is None:
                    break
                lines = _lines((late.stdout or b"").decode(errors="replace"))
                # A wait that has just begun may be told a moment later.
                longer_s = min(for_s + _waited_s(lines) + TOLD_WITHIN_S, wall_s)
                if longer_s <= allowed_s:
                    break
                allowed_s = longer_s
        kill_group(process)
        return *process.communicate(), True  # what was written before the kill
    finally:
        kill_group(process)  # also after its end: Inductor's workers may still run


def _lines(output: str) -> list[Record]:
    """The records of the complete lines; the last line may be cut off in the middle."""
    lines = output.splitlines(keepends=True)
    return [dict(json.loads(line)) for line in lines if line.endswith("\n")]


def _waited_s(lines: Sequence[Record]) -> float:
    """The seconds that a process has waited for others, by its last line about it."""
    return max((line[WAITED] for line in lines if WAITED in line), default=0.0)


def reason_of(process: "subprocess.Popen[str]", log: str) -> str:
    """Why a process failed: the last line of a traceback names the error."""
    return (log.strip().splitlines() or [f"exit code {process.returncode}"])[-1]


def kill_group(process: "subprocess.Popen[str]") -> None:
    """Kill a process that leads a session, with all that it started."""
    # The process may have ended already, with all that it started.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def short(text: str) -> str:
    """The text on one line, at most SENTENCE_LIMIT characters."""
    return " ".join(text.split())[:SENTENCE_LIMIT]
