"""Runs benchmark tasks in a process of its own: searches or judges each, and times the result.

    python -m kernelwright.bench.case

reads one JSON object a line, {"spec": ..., "candidate": ..., "folder": ..., "options": {...},
"max_autotune": ..., "room": ..., "alone": ..., "timeout_s": ...}, and answers each with a line of
findings. A search ends early enough for the rest to fit into `timeout_s`. In the folder `room` the
processes of a run share out the GPU's memory: each reserves its part while it uses the GPU. A job
with `alone` waits until no other process has a part.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from kernelwright.bench.footprint import footprint
from kernelwright.bench.serving import serve
from kernelwright.bench.side_by_side import side_by_side
from kernelwright.bench.suite import KERNEL, MEMORY, SLOWER, failure, found_of
from kernelwright.core import record
from kernelwright.core.delivered import COMPILED, ORIGINAL, OURS
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.verdict import Code, Verdict
from kernelwright.policy.names import TEACHER
from kernelwright.search.contest.side_by_side import COMPILE_MODES, MESSAGE_LIMIT
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions
from kernelwright.timing.deadline import Budget
from kernelwright.timing.floor import floor_ms
from kernelwright.timing.stages import take_spent
from kernelwright.verify.api import verify
from kernelwright.verify.room import Hold, is_about_memory, room
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.module_task import ModuleTask

SEARCH_SHARE = 0.55
"""The share of a case's time after which its search ends. torch.compile and times take the rest."""


def run_case(job: Record) -> Record:
    """The findings of a case, with the seconds of its `stages` and the most bytes that this process
    had on the GPU, `peak_bytes`."""
    take_spent()  # seconds that belong to the job before
    if _on_gpu(job):
        torch.cuda.reset_peak_memory_stats()
    facts = _found(job)
    if _on_gpu(job):
        facts["peak_bytes"] = torch.cuda.max_memory_allocated()
    return facts | {"stages": {name: round(s, 2) for name, s in sorted(take_spent().items())}}


def _found(job: Record) -> Record:
    """`code`, `correct`, `has_triton`, times by contender, and the cost of a case.

    A job with a candidate is judged, and has the times of its verdict: foreign code is not run in
    this process. A job without one is searched with its policy. The result for a KernelBench file
    is then timed beside eager and torch.compile. If nothing was won, or models wrote too, only
    these baselines are timed. A "package.module:factory" keeps the times of its search.
    """
    folder = Path(job["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    say = _log(folder / "log.txt")
    total = torch.cuda.get_device_properties(0).total_memory if _on_gpu(job) else 0
    try:
        say("looking how large it is")
        needed = total if job["alone"] else footprint(job["spec"])
        say(f"asking for {min(needed, total) / 2**30:.1f} GiB")
        hold = partial(room, Path(job["room"]), needed)
        if job["candidate"]:
            with hold():
                return _judged_candidate(job, say)
        return _searched(job, folder, hold, say)
    except UsageError as error:
        return failure(MEMORY if is_about_memory(error) else "usage", str(error))
    except InfraError as error:
        return failure(MEMORY if "out of memory" in str(error) else "infra", str(error))
    except torch.OutOfMemoryError as error:
        return failure(MEMORY, str(error))
    finally:
        say("done")


def _on_gpu(job: Record) -> bool:
    return torch.cuda.is_available() and job["options"]["device"] != "cpu"


def _searched(job: Record, folder: Path, hold: Hold, say: Say) -> Record:
    options = SearchOptions(**job["options"], with_slower=True)
    result = optimize_target(
        job["spec"],
        options,
        out=folder,
        budget=Budget.start(options.budget_s, wall_s=SEARCH_SHARE * job["timeout_s"]),
        progress=lambda step: say(f"{step.stage} {step.subject}".strip()),
        hold=hold,
    )
    if failed := result["failed_sources"]:  # what others wrote is not what the policy gives
        raise InfraError("; ".join(f"{source['origin']}: {source['message']}" for source in failed))
    lines = list(record.read(folder / "records.jsonl"))
    judged = result.get("slower", result)
    verdict = Verdict.from_json(judged["verdict"])
    # Kernels that found too little memory beside other cases may be right with the GPU alone.
    if not (verdict.accepted or job["alone"]) and (why := _ran_out(lines)):
        return failure(MEMORY, f"beside other cases: {why}")
    facts = found_of(verdict) | {
        "form": result.get("form"),
        "kept": result["form"] in OURS if result.get("form") else result["verdict"]["accepted"],
        "algebra": result["algebra"],
        "rewrites": result["rewrites"],
        "graph": judged["graph"],
        "forms": result["forms"],
        "candidates": result["num_candidates"],
        "rejected": _rejected(lines),
        "seconds": result["seconds"],
        **{key: result[key] for key in ("layout", "num_operators", "operators_triton")},
    }
    if not _on_gpu(job):
        return facts
    if result.get("torch_compile"):
        facts["contest"] = _of_contest(result)
    facts["floor_ms"] = floor_ms(
        verdict.device,
        result["bytes"]["least"],
        result["flops"],
        _arithmetic(result["dtypes"], verdict.precision),
    )
    if not _is_file(job):
        return facts | _of_search(result)
    # Timed again: the search chose the fastest of many, so its own times are biased low.
    say("timing side by side")
    is_ours = job["options"]["policy"] == TEACHER
    with hold():
        timed = _timed(job, _to_time(facts, folder) if is_ours else None, verdict.precision)
    return facts | timed if is_ours else _apart(facts, timed, _of_search(result))


def _of_contest(result: Record) -> Record:
    """The figures that decided the search: medians in ms, and whether torch.compile passes the
    judge's comparison. Inductor may choose layouts in which cuDNN rounds to TF32."""
    compiled, times = result["torch_compile"], result.get("times", {})
    facts = {key: compiled[key] for key in ("right", "moves_layouts", "message", "failed")}
    return facts | {"median_ms": {name: times[name]["median_ms"] for name in times}}


def _is_file(job: Record) -> bool:
    """Whether a job names a file, not "package.module:factory"."""
    return bool(job["spec"].endswith(".py"))


def _to_time(line: Record, folder: Path) -> Path | None:
    """The file to time: the delivered one, or if the original is delivered a right but slower
    kernel. None if there is neither."""
    if line["form"] not in (None, ORIGINAL):
        return folder / KERNEL
    if not line["correct"]:
        return None
    return folder / (KERNEL if line["kept"] else SLOWER)


def _of_search(result: Record) -> Record:
    """The times that a search measured beside torch.compile; empty if it measured none."""
    times, speedups = result["times"], result.get("speedups", {})
    if "compiled" not in times:
        return {}
    names = {"eager": "over_eager", "compiled": "over_compile"}
    intervals = {name: speedups[key][1:] for name, key in names.items() if key in speedups}
    taken = {name: times[name] for name in ("eager", "compiled", "optimized") if name in times}
    if result["form"] == COMPILED and "optimized" not in taken:
        taken["optimized"] = None  # what is delivered is torch.compile itself
    return taken | {"speedup_intervals": intervals}


def _rejected(lines: Sequence[Record]) -> dict[str, str]:
    """Reason code -> message of the first candidate or whole that was refused with this code."""
    judged = ("candidate", "whole")
    verdicts = [line["verdict"] for line in lines if line["record"] in judged]
    # Reversed, so that the first refusal of each code is the one that stays in the dict.
    wrong = [verdict for verdict in reversed(verdicts) if not verdict["accepted"]]
    return {refused["code"]: refused["message"][:MESSAGE_LIMIT] for refused in wrong}


def _ran_out(lines: Sequence[Record]) -> str:
    """The message of a kernel or a whole that was refused for lack of memory; "" if none was."""
    verdicts = [line["verdict"] for line in lines if "verdict" in line]
    texts = [verdict["message"] for verdict in verdicts if verdict["code"] == Code.OUT_OF_MEMORY]
    texts += [line["reason"] for line in lines if Code.OUT_OF_MEMORY in (line.get("reason") or "")]
    return texts[0][:MESSAGE_LIMIT] if texts else ""


def _judged_candidate(job: Record, say: Say) -> Record:
    begin_s = time.monotonic()
    options = {key: job["options"][key] for key in ("device", "precision", "mode")}
    verdict = verify(job["spec"], Path(job["candidate"]), progress=say, **options)
    return found_of(verdict) | {"candidates": 1, "seconds": time.monotonic() - begin_s}


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


def _apart(searched: Record, timed: Record, contest: Record) -> Record:
    """The times of code that models may have written, which this process does not run.

    The contest of the search timed the delivered form beside the baselines, in guests. Without such
    a time, the verdict has the kernel's time. Kernel and baseline did not take turns then, so the
    interval of a ratio is the widest that both intervals allow. If torch.compile is delivered, the
    user does not get the judged kernel, and its time is left out. Without a right kernel the user
    keeps PyTorch.

    Args:
        timed: baselines, timed after the search.
        contest: the times of the contest, as of `_of_search`.
    """
    if contest.get("optimized"):
        searched = searched | contest
    elif searched.get("form") == COMPILED:
        searched = searched | {"eager": None, "optimized": None, "speedup_intervals": {}}
    intervals = dict(searched["speedup_intervals"])
    baselines = {name: timed[name] for name in COMPILE_MODES.keys() & timed.keys()}
    baselines["eager"] = timed["eager"]
    baselines |= {name: searched[name] for name in baselines if searched.get(name)}
    if (ours := searched["optimized"]) is not None:
        for name, timing in baselines.items():
            widest = (timing["low_ms"] / ours["high_ms"], timing["high_ms"] / ours["low_ms"])
            intervals.setdefault(name, widest)
    return timed | searched | baselines | {"speedup_intervals": intervals}


def _arithmetic(dtypes: list[str], precision: str) -> str:
    """The fastest arithmetic that the precision allows for a program of these dtypes."""
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
