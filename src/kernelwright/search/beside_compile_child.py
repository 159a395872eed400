"""The process in which `search.beside_compile` has PyTorch, torch.compile and a kernel timed.

    python -m kernelwright.search.beside_compile_child

reads one JSON object, {"text", "source", "precision"}, and answers with one line of JSON.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import torch

from kernelwright.core.record import Record
from kernelwright.sandbox import kernel
from kernelwright.sandbox.own_folders import own_folder
from kernelwright.search.importing import import_file
from kernelwright.search.side_by_side import COMPILE_MODES, Call, Called, side_by_side
from kernelwright.timing.turns import OURS, Contender
from kernelwright.verify.guests import server
from kernelwright.verify.judge import default_limits, device_named
from kernelwright.verify.load import load_task
from kernelwright.verify.session import Session
from kernelwright.verify.sides import GuestCalls
from kernelwright.verify.task import ModuleTask, Task

NAME = "candidate"


def main() -> None:
    begin_s = time.monotonic()
    _end_with_parent()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what other code prints is no answer
    answer = timed(json.load(sys.stdin), device_named("cuda"))
    seconds = time.monotonic() - begin_s
    answers.write(json.dumps(answer | {"seconds": seconds}) + "\n")
    answers.flush()


def _end_with_parent() -> None:
    # The thread that started this process waits for its end, so that thread does not end before.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(sys.stdout, 0)
    if poll.poll(0):  # nobody can read it: the parent ended before
        sys.exit(1)


def timed(job: Record, device: torch.device) -> Record:
    """Times by contender, intervals by baseline, and why torch.compile failed.

    Raises:
        Exception: the reference, the kernel or our side fails.
    """
    with ExitStack() as open_things:
        folder = open_things.enter_context(own_folder("reference"))
        path = folder / "reference.py"
        path.write_text(job["text"], encoding="utf-8")
        task = load_task(path, device)
        contenders: dict[str, Contender] = {
            "eager": Called(reference(task, path, device)),
            "compiled": Called(
                torch.compile(reference(task, path, device), mode=COMPILE_MODES["compiled"])
            ),
        }
        if job["source"] is not None:
            guest = open_things.enter_context(server(device).guest(default_limits(device)))
            session = Session(task, guest, device)
            session.load(NAME, job["source"])
            session.restart(NAME)
            contenders[OURS] = GuestCalls(session, NAME)
        result = side_by_side(
            contenders,
            lambda seed: task.draw(seed, device),
            precision=job["precision"],
            uncompiled=reference(task, path, device),
        )
    return {
        "times": {name: asdict(timing) for name, timing in result.times.items()},
        "speedup_intervals": result.speedup_intervals,
        "failed": result.failed,
    }


def reference(task: Task, path: Path, device: torch.device) -> Call:
    """The original as the user calls it: a flat program's function is called without our loop."""
    if isinstance(task, ModuleTask):
        return task.reference(device)
    call: Call = import_file(path).fused_operator
    return call


if __name__ == "__main__":
    main()
