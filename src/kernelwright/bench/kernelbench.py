"""KernelBench through `optimize`: every task of a level, a process each, one record each.

The tasks are read from a checkout of the public repository; nothing of it is part of this project.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

    def one(case: Case) -> None:
        if case.id in done or time.monotonic() > deadline_s:
            return
        found = _run_case(case, work / case.name, options, timeout_s)
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

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, todo))


def describe(line: Record) -> str:
    """One case in a few words."""
    if not line.get("optimized"):
        return str(line["code"]) + ("" if line["correct"] else f": {line.get('message', '')[:160]}")
    eager, compiled, ours = (line[name]["median_ms"] for name in ("eager", "compiled", "optimized"))
    return f"{ours:.3f} ms, {eager / ours:.2f}x eager, {compiled / ours:.2f}x torch.compile"


def _cases_in(results: Path) -> Iterator[Record]:
    if results.exists():
        yield from (line for line in record.read(results) if line["record"] == "benchmark_case")


def _run_case(case: Case, folder: Path, options: dict[str, Any], timeout_s: float) -> Record:
    answer = folder / "case.json"
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-m", "kernelwright.bench.case", str(case.path), str(folder)]
    failed = {"correct": False, "has_triton": False, "code": "infra"}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("w") as log:
        try:
            subprocess.run(
                [*command, json.dumps(options)],
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return failed | {"message": f"no end within {timeout_s:g} s"}
    if not answer.exists():
        return failed | {"message": (folder / "log.txt").read_text()[-2_000:]}
    return dict(json.loads(answer.read_text()))
