"""One benchmark task in a process of its own: optimize it, then time it side by side.

    python -m kernelwright.bench.case TASK.py FOLDER '{"precision": "strict", ...}'

writes FOLDER/case.json. A process per task keeps a sticky CUDA error from reaching the next one.
"""

import json
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


def run_case(path: Path, folder: Path, options: dict[str, Any]) -> Record:
    """The case's findings: `code`, `correct`, `has_triton`, times by contender."""
    begin_s = time.monotonic()

    def say(message: str) -> None:
        print(f"{time.monotonic() - begin_s:7.2f} s  {message}", flush=True)  # noqa: T201

    try:
        result = optimize_target(str(path), out=folder, progress=say, **options)
    except UsageError as error:
        return {"correct": False, "has_triton": False, "code": "usage", "message": str(error)}
    except InfraError as error:
        return {"correct": False, "has_triton": False, "code": "infra", "message": str(error)}
    verdict = result["verdict"]
    times: dict[str, Any] = {}
    if verdict["accepted"] and torch.cuda.is_available():
        say("timing side by side")
        task = load_task(path, torch.device("cuda"))
        assert isinstance(task, ModuleTask)
        timed = side_by_side(task, folder / "optimized.py")
        times = {name: asdict(timing) for name, timing in timed.items()}
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
    }


if __name__ == "__main__":
    task_path, out, text = sys.argv[1:]
    case = run_case(Path(task_path), Path(out), json.loads(text))
    Path(out).mkdir(parents=True, exist_ok=True)
    Path(out, "case.json").write_text(json.dumps(case))
