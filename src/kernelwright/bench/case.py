"""Benchmark tasks in a process of their own: what a policy gives for each, judged and timed.

    python -m kernelwright.bench.case

reads one JSON object a line, {"spec": ..., "candidate": ..., "folder": ..., "options": {...},
"max_autotune": ..., "room": ...}, and answers each with one line: the case's findings. In the
folder `room` the processes of a run agree on who has how much of the GPU's memory.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from kernelwright.bench.serving import serve
from kernelwright.bench.side_by_side import side_by_side
from kernelwright.bench.suite import KERNEL, failure
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.programs.program import Program
from kernelwright.search.optimize import optimize_target
from kernelwright.timing.floor import floor_ms
from kernelwright.verify.api import verify
from kernelwright.verify.load import load_task
from kernelwright.verify.room import is_about_memory, needed_bytes, room
from kernelwright.verify.task import ModuleTask

Say = Callable[[str], None]


def run_case(job: Record) -> Record:
    """The case's findings: `code`, `correct`, `has_triton`, times by contender, what was spent.

    A job without a candidate is searched by the teacher; a KernelBench file is then timed side by
    side with torch.compile, or the baselines alone where nothing was won; "package.module:factory"
    has the times of its verdict. A candidate is judged as it is, and has the times of its verdict:
    it is not ours to run in this process.
    """
    folder = Path(job["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    say = _log(folder / "log.txt")
    try:
        return _judged_candidate(job, say) if job["candidate"] else _searched(job, folder, say)
    except UsageError as error:
        return failure("memory" if is_about_memory(error) else "usage", str(error))
    except InfraError as error:
        return failure("infra", str(error))
    finally:
        say("done")


def _searched(job: Record, folder: Path, say: Say) -> Record:
    share = _Share(Path(job["room"]))
    result = optimize_target(job["spec"], out=folder, progress=say, room=share.of, **job["options"])
    verdict = Verdict.from_json(result["verdict"])
    found = _of_verdict(verdict) | {
        "has_triton": result["num_triton"] > 0,
        "operators_triton": result["operators_triton"],
        "rewrites": result["rewrites"],
        "candidates": result["num_candidates"],
        "seconds": result["seconds"],
        **{key: result[key] for key in ("layout", "num_operators", "num_right")},
    }
    if not torch.cuda.is_available() or job["options"]["device"] == "cpu":
        return found
    found["floor_ms"] = floor_ms(
        verdict.device,
        result["bytes"]["least"],
        result["flops"],
        _arithmetic(result["dtypes"], verdict.precision),
    )
    if job["spec"].endswith(".py"):
        say("timing side by side")
        with room(share.folder, share.num_bytes):
            found |= _timed(job, folder / KERNEL if verdict.accepted else None, verdict.precision)
    return found


@dataclass(slots=True)
class _Share:
    """What a case needs of the GPU's memory, known once its program is."""

    folder: Path
    num_bytes: int = 0

    def of(self, program: Program) -> AbstractContextManager[None]:
        self.num_bytes = needed_bytes(program)
        return room(self.folder, self.num_bytes)


def _judged_candidate(job: Record, say: Say) -> Record:
    begin_s = time.monotonic()
    options = {key: job["options"][key] for key in ("device", "precision", "mode")}
    verdict = verify(job["spec"], Path(job["candidate"]), progress=say, **options)
    return _of_verdict(verdict) | {
        "has_triton": bool(verdict.launches),
        "candidates": 1,
        "seconds": time.monotonic() - begin_s,
    }


def _of_verdict(verdict: Verdict) -> Record:
    """Times too, where it was accepted on a GPU."""
    found: Record = {
        "correct": verdict.accepted,
        "code": verdict.code,
        "message": verdict.message,
        "errors": asdict(verdict.errors) if verdict.errors else None,
        "eager": None,
        "compiled": None,
        "optimized": None,
        "speedup_intervals": {},
    }
    if verdict.accepted and verdict.times:
        found["eager"] = asdict(verdict.times["reference"])
        found["optimized"] = asdict(verdict.times["candidate"])
        found["speedup_intervals"] = {"eager": verdict.speedup_interval}
    return found


def _timed(job: Record, kernel: Path | None, precision: str) -> Record:
    task = load_task(job["spec"], torch.device("cuda"))
    assert isinstance(task, ModuleTask)
    timed = side_by_side(task, kernel, precision=precision, max_autotune=job["max_autotune"])
    return {
        **{name: asdict(timing) for name, timing in timed.times.items()},
        "speedup_intervals": timed.speedup_intervals,
        "baselines_failed": timed.failed,
        "tf32": timed.tf32,
    }


def _arithmetic(dtypes: list[str], precision: str) -> str:
    """The fastest that the policy lets a program of these types use."""
    if "float32" not in dtypes:
        return "bf16"
    return "tf32x3" if precision == "strict" else "tf32"


def _log(path: Path) -> Say:
    begin_s = time.monotonic()
    path.unlink(missing_ok=True)

    def say(message: str) -> None:
        with path.open("a") as file:
            file.write(f"{time.monotonic() - begin_s:7.2f} s  {message}\n")

    return say


if __name__ == "__main__":
    serve(run_case, after=torch.compiler.reset)
