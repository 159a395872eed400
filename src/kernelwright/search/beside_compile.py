"""Times of an optimized program beside torch.compile, taken by a process with a deadline.

torch.compile runs the user's code and compiles for seconds or minutes, which nothing in its own
process can stop. So `search.beside_compile_child` does that in a process of its own, and what is
left of the user's budget is its deadline. A kernel runs in a guest there, as it does for the judge.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress

from kernelwright.core.record import Record
from kernelwright.programs.text import to_text
from kernelwright.search.variant import Whole
from kernelwright.timing.stages import stage
from kernelwright.timing.turns import OURS
from kernelwright.verify.judge import Judge
from kernelwright.verify.program_task import ProgramTask
from kernelwright.verify.room import Hold
from kernelwright.verify.task import ModuleTask, Task

COMMAND = (sys.executable, "-m", "kernelwright.search.beside_compile_child")
LEAST_S = 12.0
"""A process that loads torch, compiles one small kernel and takes times needs about this long."""
MESSAGE_LIMIT = 200
"""Characters of an error that go into the message."""


def rival(task: Task, judge: Judge, *, for_s: float) -> Record:
    """PyTorch and torch.compile timed in turn, before any whole is judged: as `beside_compile`."""
    judge.rest()  # its guest has memory on the GPU
    precision = judge.rules.precision.value
    return beside_compile(task, None, precision=precision, for_s=for_s, hold=judge.hold)


def bar_of(fields: Record) -> float:
    """The speed-up over PyTorch that kernels must reach: that of torch.compile where it is right
    and faster, else 1.

    Args:
        fields: of `rival`.
    """
    times = fields.get("times", {})
    if not fields["torch_compile"].get("right") or not {"eager", "compiled"} <= times.keys():
        return 1.0
    return float(max(1.0, times["eager"]["median_ms"] / times["compiled"]["median_ms"]))


def compile_fields(whole: Whole, task: Task, judge: Judge, *, for_s: float) -> Record:
    """What the result record says about speed on a GPU.

    Without times of torch.compile, "speedups" has "over_eager" alone, as the judge measured it.

    Args:
        whole: the result, settled.
        task: the original.
        for_s: as of `beside_compile`.
    """
    is_changed = bool(whole.variant.chosen)
    verdict, fields = whole.verdict, Record()
    if is_changed and verdict.speedup is not None and verdict.speedup_interval is not None:
        fields["speedups"] = {"over_eager": [verdict.speedup, *verdict.speedup_interval]}
    judge.rest()  # its guest has memory on the GPU
    precision = judge.rules.precision.value
    source = whole.source if is_changed else None
    try:
        return fields | beside_compile(
            task, source, precision=precision, for_s=for_s, hold=judge.hold
        )
    except KeyboardInterrupt:  # the result is settled and must not be lost
        return fields | _untimed("torch.compile was not timed: the search was interrupted.")


def beside_compile(
    task: Task,
    source: str | None,
    *,
    precision: str,
    for_s: float,
    hold: Hold = nullcontext,
    command: tuple[str, ...] = COMMAND,
) -> Record:
    """Time PyTorch, torch.compile and a kernel in turn on the GPU: fields of a result record.

    Args:
        task: the original.
        source: the accepted text of optimized.py; None where the original stays, so that PyTorch
            and torch.compile are timed alone.
        precision: "strict", "tf32" or "kernelbench".
        for_s: seconds that are left of the user's budget.
        hold: as of `Judge`: the context in which something is in the GPU's memory.
        command: of the process that takes the times.

    Returns:
        "torch_compile": {"timed", "message", "seconds"}. The message says why there is no time, and
        is empty where there is one. Then also "right", whether torch.compile's own answer passes
        the judge's comparison; "moves_layouts", whether it does so with Inductor's own layouts;
        "times" by contender, as `Timing`, and "speedups": "over_eager" and "over_compile", each
        [ratio, low, high] with its 95% interval.
    """
    text = _text(task)
    if text is None:
        return _untimed("torch.compile was not timed: the original has no source text.")
    if for_s < LEAST_S:
        return _untimed(
            f"torch.compile was not timed: {max(for_s, 0):.0f} s of the budget were left, and it"
            f" needs at least {LEAST_S:.0f} s."
        )
    begin_s = time.monotonic()
    job = {"text": text, "source": source, "precision": precision}
    with hold():
        answer = _answer(command, job, for_s)
    return _fields(answer) if isinstance(answer, Mapping) else _untimed(answer, begin_s)


@stage("beside torch.compile")
def _answer(command: tuple[str, ...], job: Record, for_s: float) -> Record | str:
    """What the process answers, or a sentence that says why there is no answer."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Inductor's workers are killed with it
    ) as process:
        try:
            answer, log = process.communicate(json.dumps(job), timeout=for_s)
        except subprocess.TimeoutExpired:
            return (
                f"torch.compile was not timed: it was not ready after {for_s:.0f} s, when the"
                " budget ended."
            )
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode == 0 and answer:
        return dict(json.loads(answer))
    reason = (log.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
    return f"torch.compile was not timed: the process that times it failed: {_short(reason)}"


def _short(text: str) -> str:
    """On one line, at most MESSAGE_LIMIT characters."""
    return " ".join(text.split())[:MESSAGE_LIMIT]


def _text(task: Task) -> str | None:
    """Source that a process elsewhere can load the task from."""
    if isinstance(task, ModuleTask):
        return task.text
    return to_text(task.program) if isinstance(task, ProgramTask) else None


def _fields(answer: Record) -> Record:
    """Fields of the result record from what the process answered."""
    times, intervals = answer["times"], answer["speedup_intervals"]
    failed = answer["failed"].get("compiled")
    message = f"torch.compile fails on this program: {_short(failed)}" if failed else ""
    speedups = {
        name: [times[baseline]["median_ms"] / times[OURS]["median_ms"], *intervals[baseline]]
        for name, baseline in (("over_eager", "eager"), ("over_compile", "compiled"))
        if baseline in intervals
    }
    timed = {
        "timed": not failed,
        "message": message,
        "seconds": answer["seconds"],
        "right": not failed and answer["right"],
        "moves_layouts": answer["moves_layouts"],
    }
    return {"times": times, "speedups": speedups, "torch_compile": timed}


def _untimed(message: str, begin_s: float | None = None) -> Record:
    seconds = 0.0 if begin_s is None else time.monotonic() - begin_s
    return {"torch_compile": {"timed": False, "message": message, "seconds": seconds}}
