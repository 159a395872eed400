"""Cases beyond the task: another memory layout, and the other of train and eval mode.

A task has one memory layout and one mode. A kernel that is wrong on strided inputs or in the other
mode is still correct for the task. As a drop-in for a module the kernel is wrong.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.timing.stages import stage
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.room import is_about_memory
from kernelwright.verify.session import Lasting, Session
from kernelwright.verify.tasks.cases import Cases, Posed, answered
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.trial import Trial

Layout = Callable[[Any], Any]
"""The same value in another memory layout."""


@stage("look beyond")
def look(trial: Trial, sessions: Lasting, cases: Cases) -> None:
    """Tries the candidate on strided inputs and in the other mode. Under `drop-in` both decide;
    under `fixed` an error becomes advice.

    Raises:
        Rejected: the candidate is wrong, under `drop-in`.
        UsageError: the reference fails in the other mode, or the machine has no room.
    """
    _on_other_layouts(trial, sessions, cases)
    if isinstance(cases.base, ModuleTask) and cases.base.is_redrawn:
        _in_other_mode(trial, sessions, cases, cases.base.in_other_mode())


def _on_other_layouts(trial: Trial, sessions: Lasting, cases: Cases) -> None:
    """Tries gaps between rows; under `drop-in` also dimensions in another order in memory."""
    for name, change in LAYOUTS.items() if trial.rules.is_drop_in else [STRIDED]:
        contiguous = cases.first_inputs()
        inputs = [change(value) for value in contiguous]
        if all(a is b for a, b in zip(inputs, contiguous, strict=True)):
            continue
        del contiguous
        case = replace(next(cases.all()), variant=name)
        try:
            posed = answered(cases.base, case, inputs, trial.rules)
        except UsageError as error:
            if is_about_memory(error):
                raise
            continue  # the reference asks for dense inputs itself
        _try(trial, sessions.now(), cases.base, posed, "read strides from the tensors")


def _in_other_mode(trial: Trial, sessions: Lasting, cases: Cases, other: ModuleTask) -> None:
    mode = "train mode" if other.training else "eval mode"
    first = cases.first()
    posed = answered(other, replace(first.case, variant=mode), first.inputs, trial.rules)
    # A module without dropout or batch norm does the same in both modes: nothing new is judged.
    if not _same(posed, first):
        _try(trial, sessions.open(other), other, posed, "follow self.training")


def strided(value: Any) -> Any:
    """Returns the same values with gaps between rows, or between the elements of a vector. Values
    that have no such layout stay."""
    if not isinstance(value, torch.Tensor) or not value.ndim or not value.is_contiguous():
        return value
    if value.shape[-1] < 2:
        return value
    *rows, columns = value.shape
    if rows:
        return value.new_empty((*rows, columns + 3)).narrow(-1, 0, columns).copy_(value)
    return value.new_empty((2 * columns,))[::2].copy_(value)


def _exchanged(first: int, second: int) -> Layout:
    """Returns a change that exchanges two dimensions in memory, and keeps shape and values."""

    def change(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_contiguous():
            return value
        if value.ndim < 2 or first % value.ndim == second % value.ndim:
            return value
        return value.transpose(first, second).contiguous().transpose(first, second)

    return change


STRIDED = ("strided inputs", strided)
LAYOUTS: dict[str, Layout] = dict(
    [
        STRIDED,
        ("inputs with the last two dimensions exchanged in memory", _exchanged(-2, -1)),
        ("inputs with the first two dimensions exchanged in memory", _exchanged(0, 1)),
    ]
)


def _same(one: Posed, other: Posed) -> bool:
    """Whether both cases have equal outputs, and change the same state."""
    pairs = zip(one.answer.outputs.oracle, other.answer.outputs.oracle, strict=True)
    return one.answer.state.keys() == other.answer.state.keys() and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in pairs
    )


def _try(trial: Trial, session: Session, task: Task, posed: Posed, remedy: str) -> None:
    """Judges the candidate in a case that its task does not state. The trial's own figures stay as
    they are."""
    aside = Trial(trial.rules, trial.candidate, name=trial.name)
    what = posed.case.variant
    try:
        aside.judge(session, task, posed)
    except Rejected as rejected:
        if trial.rules.is_drop_in:
            raise
        trial.advice.append(f"wrong with {what}: {rejected.message}; {remedy}")
    else:
        trial.passed(what)
