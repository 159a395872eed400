"""KernelBench through `optimize`: every task of a level, one record each.

The tasks are read from a checkout of the public repository; nothing of it is part of this project.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator
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
    path: Path


def cases(folder: Path, only: Collection[int] = ()) -> list[Case]:
    """The tasks of a level's folder (files named NUMBER_NAME.py), by number.

    Raises:
        UsageError: there is no such task.
    """
    found = []
    for path in folder.glob("*.py"):
        if match := re.match(r"(\d+)_", path.name):
            found.append(Case(int(match[1]), path.stem, path))
    found = [case for case in found if not only or case.id in only]
    if not found:
        raise UsageError(
            "no tasks named NUMBER_NAME.py here",
            file=str(folder),
            remedy="give a level's folder of a KernelBench checkout",
        )
    return sorted(found, key=lambda case: case.id)


def run_level(
    level: str,
    todo: list[Case],
    *,
    results: Path,
    work: Path,
    options: dict[str, Any],
    jobs: int,
    deadline_s: float,
    timeout_s: float,
    say: Callable[[str], None],
) -> None:
    """Run cases, appending a record each to `results`; those already there are not run again.

    Args:
        options: of `optimize_target`.
        jobs: processes at once; work on the GPU that is timed still runs alone.
        deadline_s: on the monotonic clock; cases not begun by then are left for the next run.
        timeout_s: of one case; one that takes longer is recorded as `infra`.
    """
    done = {line["id"] for line in _cases_in(results)}
    if not done:
        run = {"record": "run", "command": "eval kernelbench", "level": level, "options": options}
        record.append(results, [run | {"environment": record.environment()}])

    queue = SimpleQueue[Case]()
    for case in todo:
        if case.id not in done:
            queue.put(case)

    def serve(number: int) -> None:
        with Worker(work / f"worker-{number}.log") as worker:
            while time.monotonic() < deadline_s:
                try:
                    case = queue.get_nowait()
                except Empty:
                    return
                found = worker.run(case.path, work / case.name, options, timeout_s)
                line = {
                    "record": "benchmark_case",
                    "suite": "kernelbench",
                    "level": level,
                    "policy": "teacher",
                    "mode": options["mode"],
                    "precision": options["precision"],
                    "id": case.id,
                    "name": case.name,
                    **found,
                }
                record.append(results, [line])
                say(f"{case.name}: {describe(line)}")

    work.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(serve, range(jobs)))


def describe(line: Record) -> str:
    """One case in a few words."""
    if not line.get("optimized"):
        return str(line["code"]) + ("" if line["correct"] else f": {line.get('message', '')[:160]}")
    eager, compiled, ours = (line[name]["median_ms"] for name in ("eager", "compiled", "optimized"))
    return f"{ours:.3f} ms, {eager / ours:.2f}x eager, {compiled / ours:.2f}x torch.compile"


def _cases_in(results: Path) -> Iterator[Record]:
    if results.exists():
        yield from (line for line in record.read(results) if line["record"] == "benchmark_case")
