"""A slice of a queue: the runs of one call of `eval all`, until the time of the call is over. Each
run is a child process, and the children run one after another.

Each run continues from its own records. The folder of all runs has `queue.jsonl`, with a record for
each child, and `logs/`, with the printed results of the children.
"""

import fcntl
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import killpg
from pathlib import Path
from typing import IO

from kernelwright.bench.queue.runs import EARLIER, FOLDER, LOCK, LOGS, SLICE_S, SLICES, QueuedRun
from kernelwright.bench.queue.state import QueueCall, RunState, RunStatus, ages_of, ordered
from kernelwright.core import record
from kernelwright.core.commits import named
from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say

END_S = 60.0
"""Seconds that a child has to write its records after an interruption."""
INTERRUPTED = 128 + signal.SIGTERM
"""The exit code of an interrupted child."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSlice:
    """One call of `eval all`: the deadline, and the choice of runs."""

    call: QueueCall
    deadline_s: float
    """A time of the monotonic clock, in seconds. A child that still works then is interrupted."""
    again: bool
    """Whether runs of another commit are measured again. Their old records are moved aside."""

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.deadline_s - time.monotonic()

    def is_wanted(self, state: RunStatus) -> bool:
        """Whether this call would begin or continue a run."""
        return state.is_left or (self.again and state.is_other and not state.lacks)

    def run(self, runs: Sequence[QueuedRun], say: Say) -> None:
        """Begin or continue each wanted run once, until the time of the call ends.

        Args:
            say: gets the name of each run that begins or continues.

        Raises:
            UsageError: another process works in the folder.
            KeyboardInterrupt: the user pressed Ctrl-C. The child has been interrupted, and has
                ended.
        """
        with _alone(self.call.folder) as lock:
            record.cut_torn_line(self.call.folder / SLICES)
            states = self.call.status(runs)
            by_name = {state.name: state for state in states}
            for run in ordered(runs, states, ages_of(states)):
                state = by_name[run.name]
                if self.is_wanted(state) and self._fits(run):
                    say(run.name)
                    self._prepare(run, state)
                    self._run(run, lock)

    def _fits(self, run: QueuedRun) -> bool:
        """Whether the time that is left is enough for a case, or for the whole run if the run must
        be measured in one piece."""
        return self.left_s > (run.seconds if run.whole else run.case_s)

    def _prepare(self, run: QueuedRun, state: RunStatus) -> None:
        """Move records aside that the run must not continue, and copy the files that the run starts
        from."""
        folder = self.call.folder / run.name
        is_of_other_commit = self.again and state.is_other
        is_incomplete_piece = run.whole and state.state is RunState.PART
        if is_of_other_commit or is_incomplete_piece:
            _move_aside(folder, self.call.folder / EARLIER, named(state.commits))
        for source, target in run.copies.items():
            copied = folder / target
            if (self.call.folder / source).exists() and not copied.exists():
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.call.folder / source, copied)

    def _run(self, run: QueuedRun, lock: IO[str]) -> None:
        """Run the command in a child, and record the exit code of the child."""
        for_s = f"{self.left_s - run.case_s:.0f}"  # "inf" without a limit
        folder = str(self.call.folder / run.name)
        words = run.arguments({**self.call.values, SLICE_S: for_s, FOLDER: folder})
        log = self.call.folder / LOGS / f"{run.name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        begin_s, code = time.monotonic(), INTERRUPTED
        # If this process is killed, this record is the last. Without this record, the exit code of
        # an earlier child would count.
        self._note(run, None, 0.0)
        try:
            code = _ended(words, log, lock, self.deadline_s)
        finally:
            self._note(run, code, time.monotonic() - begin_s)

    def _note(self, run: QueuedRun, code: int | None, seconds: float) -> None:
        """Append the record of a child.

        Args:
            code: the exit code; None for a child that has only begun.
        """
        line = {
            "record": "slice",
            "run": run.name,
            "command": run.command,
            "code": code,
            "seconds": round(seconds, 1),
            "environment": self.call.environment,
        }
        record.append(self.call.folder / SLICES, [line])


def _ended(words: Sequence[str], log: Path, lock: IO[str], deadline_s: float) -> int:
    """Run a child to its end, and return its exit code. The deadline interrupts the child.

    Args:
        words: the command line of the child, after `kernelwright`.
        log: the file to which the child prints.
        lock: the lock of the folder of all runs, which the child keeps open too.
    """
    command = [sys.executable, "-m", "kernelwright.cli.main", *words]
    with log.open("a", encoding="utf-8") as printed:
        print(f"$ kernelwright {' '.join(words)}", file=printed, flush=True)
        # The child has a process group of its own, so Ctrl-C in the terminal reaches this process
        # alone. This process then interrupts the child. The child has the lock too: if this process
        # is killed, no other call can begin in the folder before the child ends.
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            process_group=0,
            pass_fds=(lock.fileno(),),
        )
        try:
            left_s = deadline_s - time.monotonic()
            return child.wait(None if left_s == float("inf") else max(0.0, left_s))
        except subprocess.TimeoutExpired:
            return _interrupted(child)
        except BaseException:
            _interrupted(child)
            raise


def _interrupted(child: "subprocess.Popen[bytes]") -> int:
    """Interrupt a child; return its exit code. A child that does not end is killed with its group.

    SIGTERM interrupts every verb as Ctrl-C does. Verbs that supervise a child of their own pass on
    SIGTERM alone. A child that has not begun its verb yet dies of SIGTERM itself.
    """
    child.terminate()
    try:
        code = child.wait(END_S)
        return INTERRUPTED if code == -signal.SIGTERM else code
    finally:
        if child.poll() is None:
            with suppress(ProcessLookupError):
                killpg(child.pid, signal.SIGKILL)
            child.wait()


def _move_aside(folder: Path, earlier: Path, commits: str) -> None:
    """Move the folder of a run into the folder `earlier`. The new name has the commits of the
    run."""
    earlier.mkdir(parents=True, exist_ok=True)
    stem = "-".join([folder.name, *commits.replace(":", "").replace(",", "").split()])
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    folder.rename(next(earlier / name for name in names if not (earlier / name).exists()))


@contextmanager
def _alone(folder: Path) -> Iterator[IO[str]]:
    """A context in which this process has the lock of a folder.

    Raises:
        UsageError: another process has the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            remedy = "wait for the other process, or give another --out"
            message = "another process runs a queue here"
            raise UsageError(message, file=str(folder), remedy=remedy) from error
        yield lock
