"""`kernelwright verify-many` that is killed leaves no process and no file behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelwright.cli.doctor import CANDIDATE, REFERENCE
from kernelwright.sandbox.host.launchers import FOLDER_VARIABLE

SOURCES = Path(__file__).parents[2] / "src"
END_S = 60.0
"""Machines are shared. On an idle one all is gone after 1 s."""

HANGS = f"""{CANDIDATE.partition("def fused_operator")[0]}
def fused_operator(x):
    modules = getattr(getattr(torch, "".join(("s", "ys"))), "modules")
    system, clock, foreign = modules["o" + "s"], modules["ti" + "me"], modules["cty" + "pes"]
    fork, prctl = getattr(system, "fo" + "rk"), getattr(foreign, "CD" + "LL")(None).prctl
    if not fork():
        system.setsid()
        if not fork():
            prctl(1, 0, 0, 0, 0)  # outlives its parent
            prctl(15, b"daemon of test", 0, 0, 0)
            clock.sleep(300)
        getattr(system, "_ex" + "it")(0)
    clock.sleep(300)
"""

Processes = set[tuple[int, str]]
"""(process id, start time): ids are used again."""


class Run:
    """A run in a process of its own, with two workers.

    Args:
        folder: of its jobs, its records and all its temporary files.
    """

    def __init__(self, folder: Path, grade: str) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        jobs = [
            {"id": f"{n}", "reference": REFERENCE, "candidate": f"{HANGS}# {n}\n"} for n in range(4)
        ]
        (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
        environment = dict(os.environ)
        environment.pop(FOLDER_VARIABLE, None)  # of this process
        verify_many = [sys.executable, "-m", "kernelwright.cli.main", "verify-many"]
        options = ["--device", "cpu", "--workers", "2", "--out", "run", "--grade", grade]
        self.process = subprocess.Popen(
            [*verify_many, "jobs.jsonl", *options],
            cwd=folder,
            env=environment | {"TMPDIR": str(self.temporary), "PYTHONPATH": str(SOURCES)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def has_folder(self, purpose: str) -> bool:
        return any(self.temporary.glob(f"kernelwright-{purpose}-*"))

    def descendants(self) -> Processes:
        parents = {pid: int(after[1]) for pid, (_, after) in _all_processes().items()}
        family = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        return {(pid, after[19]) for pid, (_, after) in _all_processes().items() if pid in family}

    def num_daemons(self) -> int:
        family = {pid for pid, _ in self.descendants()}
        return sum(
            pid in family and name == "daemon of test"
            for pid, (name, _) in _all_processes().items()
        )

    def living(self, before: Processes) -> list[int]:
        """The processes from before, and all that have this run's folder in their environment."""
        return [
            pid
            for pid, (_, after) in _all_processes().items()
            if after[0] not in "XZ" and ((pid, after[19]) in before or self._is_in_environment(pid))
        ]

    def _is_in_environment(self, pid: int) -> bool:
        try:
            return os.fsencode(self.temporary) in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False


def _all_processes() -> dict[int, tuple[str, list[str]]]:
    """By id: the name, and the fields of /proc/PID/stat after it."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = path.read_text(errors="replace").rpartition(")")
        except OSError:
            continue
        processes[int(path.parent.name)] = (before.partition("(")[2], after.split())
    return processes


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    runs: list[Run] = []

    def run(grade: str) -> Run:
        runs.append(Run(tmp_path, grade))
        return runs[-1]

    yield run
    for each in runs:
        each.process.kill()
        each.process.wait()


def wait_until(is_true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + END_S
    while not is_true() and time.monotonic() < end_s:
        time.sleep(0.05)
    assert is_true()


MOMENTS: dict[str, Callable[[Run], bool]] = {
    "workers import torch": lambda run: len(run.descendants()) > 2,
    "servers import torch": lambda run: run.has_folder("server"),
    "candidates hang": lambda run: run.num_daemons() >= 2,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "grade"),
    [
        ("workers import torch", "fresh"),
        ("servers import torch", "fresh"),
        ("candidates hang", "fresh"),
        ("candidates hang", "recycled"),  # in compile servers
    ],
)
def test_nothing_of_a_killed_run_stays(start: Callable[[str], Run], moment: str, grade: str):
    run = start(grade)
    wait_until(lambda: MOMENTS[moment](run))
    time.sleep(0.3)
    family = run.descendants()
    assert len(family) > 2
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.wait()
    wait_until(lambda: run.living(family) == [])
    # A process that was born after the family was counted may still be clearing up.
    wait_until(lambda: list(run.temporary.iterdir()) == [])
