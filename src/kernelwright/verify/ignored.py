"""Finds calls of a program that its outputs do not depend on, at the sizes it is judged at.

Examples: a product of a hundred values of `erf` rounds to zero for any input. A later threshold may
replace every value of a result. The sign of positive values is the same for all inputs, and may be
lost in rounding beside a large term. A faithful kernel for such a call changes no output: the fault
is the task's. The linter refuses such tasks at small sizes (`ignores_operator`). A larger task of
the same structure may still have such calls.
"""

from functools import partial

import torch

from kernelwright.core.seed import derive
from kernelwright.programs.draws.positions import calls_of_positions
from kernelwright.programs.program import Call
from kernelwright.programs.reference import run
from kernelwright.programs.resizing.variants import num_bytes
from kernelwright.verify.tasks.cases import KEPT_BYTES, Cases, Posed, fillers
from kernelwright.verify.tasks.oracle import seeded
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.values.compare import compare

NUM_OTHERS = 2
"""Draws whose results are put in a call's place."""

Results = dict[str, tuple[torch.Tensor, ...]]
"""The results of every call, by the name of the first result."""


def ignored_calls(cases: Cases) -> tuple[str, ...]:
    """Returns the names of calls whose results do not matter: in every telling case, the outputs
    stay right with results of other inputs in their place, or with the numbers that fill unwritten
    memory. The result is empty where the task is no program, or a large one."""
    if cases.ignored is None:
        cases.ignored = _ignored_in_all(cases)
    return cases.ignored


def _ignored_in_all(cases: Cases) -> tuple[str, ...]:
    in_all: set[str] | None = None
    for case in cases.telling():
        task, posed = cases.variants[case.variant], cases.pose_if_defined(case)
        if posed is None:
            continue
        ignored = _ignored_in(task, posed, cases)
        in_all = ignored if in_all is None else in_all & ignored
        if not in_all:
            break
    return tuple(sorted(in_all or ()))


def _ignored_in(task: Task, posed: Posed, cases: Cases) -> set[str]:
    if not isinstance(task, ProgramTask) or num_bytes(task.program) > KEPT_BYTES:
        return set()
    seed, device = posed.case.seed, cases.rules.device
    others = []
    try:
        own = _results(task, posed.inputs, seed, device)
        for number in range(NUM_OTHERS):
            inputs = task.inputs(derive(seed, "ignored", number), posed.case.family, device)
            others.append(_results(task, inputs, seed, device))
    except (RuntimeError, ValueError, IndexError):  # other values leave an operator's domain
        return set()

    positions = calls_of_positions(task.program)

    def is_ignored(number: int, call: Call) -> bool:
        name = call.outputs[0]
        is_right = partial(_is_right, task, posed, cases, call)
        if all(_differ(own[name], other[name]) and is_right(other[name]) for other in others):
            return True
        # A position out of range would end the process on a GPU.
        fillings = [] if number in positions else _fillings(own[name], seed)
        return bool(fillings) and all(is_right(filling) for filling in fillings)

    calls = enumerate(task.program.calls)
    return {call.outputs[0] for number, call in calls if is_ignored(number, call)}


def _results(
    task: ProgramTask, inputs: list[torch.Tensor], seed: int, device: torch.device
) -> Results:
    """Runs the program on these inputs, and returns the results of every call."""
    by_output: Results = {}

    def kept(call: Call, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        by_output[call.outputs[0]] = results
        return results

    with seeded(seed, device):
        run(task.program, inputs, after=kept)
    return by_output


def _differ(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> bool:
    """Whether the results differ. Results that are equal for all inputs prove nothing."""
    pairs = zip(one, other, strict=True)
    return any(not torch.equal(a.nan_to_num(0.5), b.nan_to_num(0.5)) for a, b in pairs)


def _fillings(results: tuple[torch.Tensor, ...], seed: int) -> list[tuple[torch.Tensor, ...]]:
    """Returns the results as memory that a silenced kernel leaves unwritten. The list is empty for
    integers, which the judge fills in another way."""
    if not all(result.is_floating_point() or result.dtype == torch.bool for result in results):
        return []
    return [
        tuple(
            torch.full_like(result, int(filler) % 2 if result.dtype == torch.bool else filler)
            for result in results
        )
        for filler in fillers(seed)
    ]


def _is_right(
    task: ProgramTask,
    posed: Posed,
    cases: Cases,
    ignored: Call,
    results: tuple[torch.Tensor, ...],
) -> bool:
    """Whether the outputs are right with these results in place of one call's results."""
    try:
        with seeded(posed.case.seed, cases.rules.device):
            outputs = run(task.program, posed.inputs, after=partial(_swapped, ignored, results))
    except (RuntimeError, ValueError, IndexError):  # the results leave an operator's domain
        return False
    return compare(outputs, posed.answer.outputs, cases.rules.precision).mismatch is None


def _swapped(
    ignored: Call,
    instead: tuple[torch.Tensor, ...],
    call: Call,
    results: tuple[torch.Tensor, ...],
) -> tuple[torch.Tensor, ...]:
    return instead if call is ignored else results
