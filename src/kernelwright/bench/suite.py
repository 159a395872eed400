"""A suite through `optimize`: every case one record, the GPU shared fairly between workers."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from kernelwright.bench.worker import Worker
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record


@dataclass(frozen=True, slots=True)
class Case:
    id: int
    name: str
    spec: str
    """A file, or "package.module:factory"."""


def kernelbench_cases(folder: Path, only: Collection[int] = ()) -> list[Case]:
    """The tasks of a level's folder (files named NUMBER_NAME.py), by number.

    They are read from a checkout of the public repository; nothing of it is part of this project.

    Raises:
        UsageError: there is no such task.
    """
    found = []
    for path in folder.glob("*.py"):
        if match := re.match(r"(\d+)_", path.name):
            found.append(Case(int(match[1]), path.stem, str(path)))
    found = [case for case in found if not only or case.id in only]
    if not found:
        raise UsageError(
            "no tasks named NUMBER_NAME.py here",
            file=str(folder),
            remedy="give a level's folder of a KernelBench checkout",
        )
    return sorted(found, key=lambda case: case.id)


def module_cases(specs: Sequence[str]) -> list[Case]:
    """Factories as cases, numbered from 1."""
    return [Case(i, spec.rpartition(":")[2], spec) for i, spec in enumerate(specs, 1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """How a suite is run."""

    suite: str
    level: str
    results: Path
    """JSONL; cases already there are not run again."""
    work: Path
    """Folder for each case's files and log."""
    options: dict[str, Any]
    """Of `optimize_target`."""
    jobs: int
    """Processes at once; what is timed still has the GPU alone."""
    deadline_s: float
    """On the monotonic clock; cases not begun by then are left for the next run."""
    timeout_s: float
    """Of one case; one that takes longer is recorded as `infra`."""


def run_suite(run: Run, todo: Sequence[Case], say: Callable[[str], None]) -> None:
    """Run the cases that have no record yet, and append one each."""
    done = {line["id"] for line in _cases_in(run.results)}
    if not done:
        head: Record = {"record": "run", "command": f"eval {run.suite}", "level": run.level}
        head |= {"options": run.options, "environment": record.environment()}
        record.append(run.results, [head])
    queue = SimpleQueue[Case]()
    for case in todo:
        if case.id not in done:
            queue.put(case)

    def serve(number: int) -> None:
        with Worker(run.work / f"worker-{number}.log") as worker:
            while time.monotonic() < run.deadline_s:
                try:
                    case = queue.get_nowait()
                except Empty:
                    return
                line = _line(run, case) | worker.run(
                    case.spec, run.work / case.name, run.options, run.timeout_s
                )
                record.append(run.results, [line])
                say(f"{case.name}: {describe(line)}")

    run.work.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(run.jobs) as pool:
        list(pool.map(serve, range(run.jobs)))


def _line(run: Run, case: Case) -> Record:
    return {
        "record": "benchmark_case",
        "suite": run.suite,
        "level": run.level,
        "policy": "teacher",
        "mode": run.options["mode"],
        "precision": run.options["precision"],
        "id": case.id,
        "name": case.name,
    }


def describe(line: Record) -> str:
    """One case in a few words."""
    if not line.get("optimized"):
        return str(line["code"]) + ("" if line["correct"] else f": {line.get('message', '')[:160]}")
    ours = line["optimized"]["median_ms"]
    against = [
        f"{line[name]['median_ms'] / ours:.2f}x {label}"
        for name, label in (("eager", "eager"), ("compiled", "torch.compile"))
        if line.get(name)
    ]
    return f"{ours:.3f} ms, {', '.join(against)}"


def _cases_in(results: Path) -> Iterator[Record]:
    if results.exists():
        yield from (line for line in record.read(results) if line["record"] == "benchmark_case")
