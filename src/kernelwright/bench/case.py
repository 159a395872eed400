"""Benchmark tasks in a process of their own: optimize each, then time it side by side.

    python -m kernelwright.bench.case

reads one JSON object a line, {"spec": ..., "folder": ..., "options": {...}}, and answers each with
one line: the case's findings.
"""

import gc
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from kernelwright.bench.side_by_side import side_by_side
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record
from kernelwright.search.optimize import optimize_target
from kernelwright.verify.load import load_task
from kernelwright.verify.task import ModuleTask


def run_case(spec: str, folder: Path, options: dict[str, Any]) -> Record:
    """The case's findings: `code`, `correct`, `has_triton`, times by contender.

    A file is timed side by side with torch.compile; "package.module:factory" has the times of its
    verdict, eager and optimized.
    """
    begin_s = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    log.unlink(missing_ok=True)

    def say(message: str) -> None:
        with log.open("a") as file:
            file.write(f"{time.monotonic() - begin_s:7.2f} s  {message}\n")

    try:
        result = optimize_target(spec, out=folder, progress=say, **options)
    except UsageError as error:
        return {"correct": False, "has_triton": False, "code": "usage", "message": str(error)}
    except InfraError as error:
        return {"correct": False, "has_triton": False, "code": "infra", "message": str(error)}
    verdict = result["verdict"]
    times: dict[str, Any] = {}
    intervals: dict[str, Any] = {}
    if verdict["accepted"] and torch.cuda.is_available():
        times = result["times"]
        intervals = {"eager": verdict["speedup_interval"]}
        if spec.endswith(".py"):
            say("timing side by side")
            task = load_task(spec, torch.device("cuda"))
            assert isinstance(task, ModuleTask)
            timed = side_by_side(task, folder / "optimized.py")
            times = {name: asdict(timing) for name, timing in timed.times.items()}
            intervals = dict(timed.speedup_intervals)
    say("done")
    return {
        "correct": verdict["accepted"],
        "has_triton": result["num_triton"] > 0,
        "code": verdict["code"],
        "message": verdict["message"],
        "errors": verdict["errors"],
        "layout": result["layout"],
        "num_operators": result["num_operators"],
        "operators_triton": result["operators_triton"],
        "seconds": result["seconds"],
        "eager": times.get("eager"),
        "compiled": times.get("compiled"),
        "optimized": times.get("optimized"),
        "speedup_intervals": intervals,
    }


def main() -> None:
    """Serve cases from stdin until it ends. What other code prints goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        job = json.loads(line)
        found = run_case(job["spec"], Path(job["folder"]), job["options"])
        answers.write(json.dumps(found) + "\n")
        answers.flush()
        torch.compiler.reset()
        gc.collect()  # modules and their compiled forms refer to each other
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
