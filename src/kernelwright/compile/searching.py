"""Searches of programs behind the backend: what the library knows, and searches in a process of
their own."""

import atexit
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelwright.compile.settings import BackendSettings
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Precision
from kernelwright.library.store import Library
from kernelwright.policy.names import DEFAULT_MODE, TEACHER
from kernelwright.programs.program import Program
from kernelwright.programs.sizes.program import SizedProgram, sized_record
from kernelwright.programs.text import to_text
from kernelwright.sandbox.host import supervised
from kernelwright.sandbox.shared.own_folders import own_folder
from kernelwright.search.contest.process import communicated, kill_group, reason_of, started
from kernelwright.search.shelf import Shelf
from kernelwright.search.sources import Sources
from kernelwright.search.target import load_target
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.verify.judging import Rules, device_named

COMMAND = (sys.executable, "-P", "-m", "kernelwright.compile.child")
GRACE_S = 60.0
"""A search process is ended if it still runs this long after its budget."""
PROGRAM_NAME = "graph.py"


@dataclass(frozen=True, slots=True)
class Sought:
    """The subject of a search: kernels for a program."""

    program: Program
    sized: SizedProgram | None = None
    """The program at several sizes, where sizes vary."""


class Finder(Protocol):
    """Finds kernels for programs. Both functions return records of a search, the result last."""

    def known(self, sought: Sought, settings: BackendSettings) -> Sequence[Record] | None:
        """The records of an earlier search with these settings; None where there was none."""

    def search(self, sought: Sought, settings: BackendSettings) -> Sequence[Record]:
        """The records of a new search.

        Raises:
            InfraError: the search ended without a result.
        """


class LibraryFinder:
    """Kernels from the library, and from searches whose results the library keeps.

    Args:
        device: "cuda"; "cpu" judges in Triton's interpreter.
    """

    def __init__(self, device: str = "cuda") -> None:
        self._device = device

    def known(self, sought: Sought, settings: BackendSettings) -> Sequence[Record] | None:
        with own_folder("graph") as folder:
            path = _write_program(sought.program, folder)
            device = device_named(self._device)
            rules = Rules(device, Precision(settings.precision), DEFAULT_MODE)
            try:
                library = Library(settings.library)
            except UsageError:  # the search says so
                return None
            shelf = Shelf(library, rules, Sources(TEACHER), SearchSteps())
            target = load_target(str(path), device, sized=sought.sized)
            entry = shelf.known_module(target, settings.budget_s)
        return None if entry is None else entry.records

    def search(self, sought: Sought, settings: BackendSettings) -> Sequence[Record]:
        with own_folder("graph") as folder:
            out = folder / "out"
            job = {
                "parent": os.getpid(),
                "program": str(_write_program(sought.program, folder)),
                "sized": None if sought.sized is None else sized_record(sought.sized),
                "out": str(out),
                "device": self._device,
                "precision": settings.precision,
                "budget_s": settings.budget_s,
                "library": str(settings.library),
            }
            _run(job)
            return list(record.read(out / "records.jsonl"))


def _write_program(program: Program, folder: Path) -> Path:
    """The file has the same name for all programs: the name is part of the library's key."""
    path = folder / PROGRAM_NAME
    path.write_text(to_text(program), encoding="utf-8")
    return path


_running: set["subprocess.Popen[str]"] = set()


def _run(job: Record) -> None:
    """Search in a process of its own.

    Raises:
        InfraError: the process failed, or did not end in time.
    """
    environment = {**os.environ, **supervised.import_path()}
    process = started(COMMAND, stdout=subprocess.DEVNULL, env=environment)
    _running.add(process)
    try:
        _, log, is_late = communicated(process, job, job["budget_s"] + GRACE_S)
    finally:
        _running.discard(process)
    if is_late:
        raise InfraError("the search did not end in time")
    if process.returncode:
        raise InfraError(f"the search failed: {reason_of(process, log)}")


@atexit.register
def _end_all() -> None:
    for process in list(_running):
        kill_group(process)


class Background:
    """Runs searches one after the other, in a thread beside the user's program.

    The thread is a daemon, so the end of the user's program does not wait for searches.
    """

    def __init__(self) -> None:
        self._jobs: queue.Queue[tuple[Callable[[], None], Future[None]]] = queue.Queue()
        self._waiting: list[Future[None]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Adds work, to be done after all earlier work. The work must handle its own errors."""
        done: Future[None] = Future()
        with self._lock:
            self._waiting = [future for future in self._waiting if not future.done()]
            self._waiting.append(done)
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, daemon=True)
                self._thread.start()
        self._jobs.put((work, done))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all work is done that was submitted until now.

        Args:
            timeout_s: seconds to wait at most; None: as long as it takes.

        Returns:
            Whether all of it is done.
        """
        with self._lock:
            futures = list(self._waiting)
        return not wait(futures, timeout_s).not_done

    def _go_on(self) -> None:
        while True:
            work, done = self._jobs.get()
            try:
                work()
            finally:
                done.set_result(None)


background = Background()
"""One for the process: searches at the same time would spoil each other's times."""
