"""The process in which `search.contest.contest` has PyTorch, torch.compile and our wholes timed.

    python -m kernelwright.search.contest.child

reads one JSON object, {"text", "training", "wholes", "precision", "for_s", "wall_s", "is_sized"},
and answers with lines of JSON. Lines between tell how long the process has waited for other users
of the GPU.
"""

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TextIO

import torch
from torch.utils._pytree import tree_map

from kernelwright.core.errors import InfraError
from kernelwright.core.record import Record
from kernelwright.core.verdict import Precision
from kernelwright.policy.names import DEFAULT_MODE
from kernelwright.sandbox.confine import kernel
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.own_folders import own_folder
from kernelwright.search.contest.contest import COMPILED, COMPILED_GRAPHS, EAGER
from kernelwright.search.contest.graph_trees import can_be_copied, replayed, waits_for_launches
from kernelwright.search.contest.process import WAITED
from kernelwright.search.contest.side_by_side import (
    MESSAGE_LIMIT,
    WARM_CALLS,
    Call,
    CalledContender,
    compile_ahead,
    warm,
)
from kernelwright.search.contest.warming import Ends, GuestFailed, Warming, num_guests
from kernelwright.timing.clock import gpu_lock
from kernelwright.timing.stages import waited_s
from kernelwright.timing.turns import ROUNDS, Contender, take_turns
from kernelwright.verify.guests import computing
from kernelwright.verify.inductor import program_function
from kernelwright.verify.judging import Rules, device_named
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.tasks.answer import tensors_of
from kernelwright.verify.tasks.cases import case_of, pose
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.oracle import seeded
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.times.sides import tf32_allowed
from kernelwright.verify.values import second_look
from kernelwright.verify.values.live import copied

WARMING_SHARE = 0.6
"""A whole that is not ready after this share of the contest's time takes no part."""
TELLING_S = 0.5
"""Seconds after which the process tells again how long it has waited."""
FIRST_ROUNDS = 3
"""Rounds of PyTorch and torch.compile alone. Their times count where no whole is ready in time."""
SEED, NUM_CASES = 1, 2
"""The seed of all inputs in a contest, and the number of cases in which torch.compile is compared
with fp64."""


def main() -> None:
    _end_with_parent()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what other code prints is no answer
    # The guests' server loads the compiler for seconds, beside the search that writes the job.
    threading.Thread(target=_start_guests, daemon=True).start()
    text = sys.stdin.read()
    if not text:
        return  # the search ended without a contest
    lines = _Lines(answers)
    with _telling_waiting(lines):
        begin_s = time.monotonic()
        for answer in contest(json.loads(text), device_named("cuda"), begin_s):
            lines.write(answer)


class _Lines:
    """Writes records for the process that asked; several threads write."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._lock = file, threading.Lock()

    def write(self, line: Record) -> None:
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


@contextmanager
def _telling_waiting(lines: _Lines) -> Iterator[None]:
    """Tells how long this process has waited: again and again in the block, and at its end."""
    is_over = threading.Event()

    def tell() -> None:
        told_s = 0.0
        while True:
            is_last = is_over.wait(TELLING_S)
            if (now_s := waited_s()) > told_s:
                lines.write({WAITED: now_s})
                told_s = now_s
            if is_last:
                return

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _start_guests() -> None:
    with suppress(InfraError):  # a failure is raised again where a guest is wanted
        shared("cuda").start(compiles=True)


def _end_with_parent() -> None:
    # Linux sends this signal when the parent thread ends, not the parent process. The thread that
    # started this process waits for its end.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(sys.stdout, 0)
    if poll.poll(0):  # nobody reads the output: the parent ended before the call above
        sys.exit(1)


def contest(job: Record, device: torch.device, begin_s: float) -> Iterator[Record]:
    """Yields two answers: of PyTorch and torch.compile alone, then of all contenders.

    The first answer is for the case that the deadline comes soon. An answer has "samples" (times by
    contender), "failed" (reasons by contender), "right" (forms of torch.compile) and
    "moves_layouts". The last is False if torch.compile is right only without Inductor's layouts;
    the contender "compiled" is then without them.

    Args:
        begin_s: when the contest began, on `time.monotonic`.

    Raises:
        Exception: PyTorch cannot run the original, or this process has a fault. A whole of ours
            that fails raises nothing and appears in "failed".
    """
    with _loaded(job, device) as task, ExitStack() as open_things:
        rules = Rules(device, Precision(job["precision"]), DEFAULT_MODE)
        make = partial(reference, task, device)
        open_things.enter_context(tf32_allowed(rules.precision))
        inputs = task.draw(SEED, device)
        compile_ahead(make(), inputs)
        compiled, passes, moves_layouts = right_compiled(
            task, make, rules, is_sized=job["is_sized"]
        )
        contenders: dict[str, Contender] = {
            EAGER: CalledContender(make()),
            COMPILED: CalledContender(compiled),
        }
        failed, peak_bytes = _warmed(contenders, inputs, device)
        draw = partial(task.draw, device=device)
        right = [COMPILED] if passes else []
        # Later steps add to `failed` and `right`, so the second answer has the additions.
        shared_fields = {"failed": failed, "right": right, "moves_layouts": moves_layouts}
        yield {"samples": _samples(contenders, failed, draw, rounds=FIRST_ROUNDS), **shared_fields}
        # CUDA graphs have fixed sizes.
        has_graphs = passes and COMPILED not in failed and not job["is_sized"]
        if has_graphs and waits(compiled, inputs):
            try:
                original = make()
                replaying = graphs_of(original, inputs, moves_layouts=moves_layouts)
            except Exception as error:  # whatever PyTorch raises
                failed[COMPILED_GRAPHS] = f"{type(error).__name__}: {error}"[:MESSAGE_LIMIT]
            else:
                contenders[COMPILED_GRAPHS] = CalledContender(replaying)
                right += [COMPILED_GRAPHS] if is_right(task, replaying, original, rules) else []
        ends = Ends(
            begin_s=begin_s,
            for_s=WARMING_SHARE * job["for_s"],
            wall_s=WARMING_SHARE * job["wall_s"],
        )
        warming = Warming(task, device, inputs, num_guests(device, peak_bytes), ends)
        ready, unready = warming.warm(job["wholes"], open_things)
        contenders |= ready
        failed |= unready
        del inputs, warming  # the rounds below draw their own inputs
        yield {"samples": _samples(contenders, failed, draw, rounds=ROUNDS), **shared_fields}


@contextmanager
def _loaded(job: Record, device: torch.device) -> Iterator[Task]:
    """A context with the task of a job. No gradients are kept in the context."""
    with own_folder("reference") as folder:
        path = folder / "reference.py"
        path.write_text(job["text"], encoding="utf-8")
        task = load_task(path, device, training=job["training"])
        with torch.no_grad():
            yield task


def _warmed(
    contenders: Mapping[str, Contender], inputs: list[Any], device: torch.device
) -> tuple[dict[str, str], int]:
    """Call each contender. Returns the reasons of those that fail, and the most bytes of GPU memory
    in use: the memory that a guest will need (`num_guests`)."""
    if device.type == "cpu":
        return warm(contenders, inputs), 0
    torch.cuda.reset_peak_memory_stats(device)
    return warm(contenders, inputs), torch.cuda.max_memory_allocated(device)


def _samples(
    contenders: Mapping[str, Contender],
    failed: dict[str, str],
    draw: Callable[[int], list[Any]],
    rounds: int,
) -> dict[str, list[float]]:
    """Times of the contenders that work. If a whole fails in its turn, it is added to `failed`, and
    all turns begin again without it."""
    while True:
        working = {name: side for name, side in contenders.items() if name not in failed}
        try:
            with gpu_lock():
                return take_turns(working, draw, seed=SEED, rounds=rounds)
        except GuestFailed as error:
            failed[error.name] = str(error)


def waits(call: Call, inputs: list[Any]) -> bool:
    """Whether launches are what takes the time of a call."""
    with gpu_lock():
        return waits_for_launches(call, inputs)


def graphs_of(call: Call, inputs: list[Any], *, moves_layouts: bool) -> Call:
    """torch.compile of the original that replays CUDA graphs, which it has captured.

    Raises:
        Exception: whatever PyTorch raises; ValueError where a result cannot be copied.
    """
    replaying = replayed(call, {} if moves_layouts else {"layout_optimization": False})
    for _ in range(WARM_CALLS):
        with gpu_lock(shared=True):
            result = replaying(*inputs)
    if not can_be_copied(result):
        raise ValueError("a result has a container that PyTorch does not know")
    return replaying


def right_compiled(
    task: Task, make: Callable[[], Call], rules: Rules, *, is_sized: bool = False
) -> tuple[Call, bool, bool]:
    """(torch.compile of the original, whether its values are right, whether it moves layouts).

    cuDNN rounds to TF32 in some layouts. If that is too inexact for the judge, torch.compile is
    tried without layout optimization.
    """
    dynamic = True if is_sized else None
    plain: dict[str, Any] = {"layout_optimization": False}
    for options in (None, plain):
        original = make()
        compiled: Call = torch.compile(original, dynamic=dynamic, options=options)
        if is_right(task, compiled, original, rules):
            return compiled, True, options is None
        # The compiled code of this try must not serve the next try.
        torch.compiler.reset()
    return torch.compile(make(), dynamic=dynamic), False, True


def is_right(task: Task, call: Call, original: Call, rules: Rules) -> bool:
    """Whether what the call returns passes the judge's comparison with fp64 in two cases. An error
    passes nothing: the contender fails with its message later.

    Args:
        original: what the call computes. A module has its buffers as at the start in each case.
    """
    buffers = original.buffers() if isinstance(original, torch.nn.Module) else ()
    at_start = [(buffer, buffer.clone()) for buffer in buffers]
    with computing(rules.device):
        for number in range(NUM_CASES):
            for buffer, value in at_start:
                buffer.copy_(value)
            if not _passes(task, call, number, rules):
                return False
    return True


def _passes(task: Task, call: Call, number: int, rules: Rules) -> bool:
    posed = pose(task, case_of(SEED, number), rules)
    seed = posed.case.generator
    try:
        with torch.no_grad(), tf32_allowed(rules.precision), seeded(seed, rules.device):
            outputs = tensors_of(call(*tree_map(copied, posed.inputs)))
    except Exception:
        return False
    try:
        called = second_look.ReferenceCall(task, posed.inputs, seed, posed.answer.outputs)
        second_look.check_values(outputs, called, rules)
    except Rejected:
        return False
    return True


def reference(task: Task, device: torch.device) -> Call:
    """The original as the user calls it: a flat program's function is called without our loop."""
    if isinstance(task, ModuleTask):
        return task.reference(device)
    assert isinstance(task, ProgramTask), "contests are for modules and programs"
    return program_function(task.program)


if __name__ == "__main__":
    main()
