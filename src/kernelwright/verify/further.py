"""What the judge looks at beyond the task as stated, and reports without deciding by it.

A task fixes memory layout and mode: a kernel that is wrong on strided inputs, or in eval mode where
the task is in train mode, still answers it. Whoever puts it into a model of theirs wants to know.
"""

from dataclasses import replace
from typing import Any

import torch

from kernelwright.timing.stages import stage
from kernelwright.verify.cases import Cases, Posed, answered
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.session import Lasting, Session
from kernelwright.verify.task import ModuleTask, Task
from kernelwright.verify.trial import Trial


@stage("look beyond")
def look(trial: Trial, sessions: Lasting, cases: Cases) -> None:
    """Try the candidate on strided inputs and in the other mode; what is wrong becomes advice."""
    _on_strided_inputs(trial, sessions, cases)
    if isinstance(cases.base, ModuleTask) and cases.base.is_redrawn:
        _in_other_mode(trial, sessions, cases, cases.base.in_other_mode())


def _on_strided_inputs(trial: Trial, sessions: Lasting, cases: Cases) -> None:
    given = cases.first_inputs()
    inputs = [strided(value) for value in given]
    if all(a is b for a, b in zip(inputs, given, strict=True)):
        return
    del given
    case = replace(next(cases.all()), variant="strided inputs")
    posed = answered(cases.base, case, inputs, trial.rules)
    wrong = _wrong(trial, sessions.now(), cases.base, posed)
    _note(trial, wrong, "strided inputs", "read strides from the tensors, or call contiguous()")


def _in_other_mode(trial: Trial, sessions: Lasting, cases: Cases, other: ModuleTask) -> None:
    mode = "train mode" if other.training else "eval mode"
    first = cases.first()
    posed = answered(other, replace(first.case, variant=mode), first.inputs, trial.rules)
    if not _same(posed, first):
        wrong = _wrong(trial, sessions.open(other), other, posed)
        _note(trial, wrong, mode, "follow self.training")


def strided(value: Any) -> Any:
    """The same values with gaps between rows, or between elements of a vector; anything that is
    no dense tensor as it is."""
    if not isinstance(value, torch.Tensor) or not value.ndim or not value.is_contiguous():
        return value
    if value.shape[-1] < 2:
        return value
    *rows, columns = value.shape
    if rows:
        return value.new_empty((*rows, columns + 3)).narrow(-1, 0, columns).copy_(value)
    return value.new_empty((2 * columns,))[::2].copy_(value)


def _same(one: Posed, other: Posed) -> bool:
    pairs = zip(one.answer.outputs.oracle, other.answer.outputs.oracle, strict=True)
    return one.answer.state.keys() == other.answer.state.keys() and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in pairs
    )


def _wrong(trial: Trial, session: Session, task: Task, posed: Posed) -> str | None:
    """Why the candidate would be rejected in this case; None where it is right."""
    aside = Trial(trial.rules, trial.candidate, name=trial.name)
    try:
        aside.judge(session, task, posed)
    except Rejected as rejected:
        return rejected.message
    return None


def _note(trial: Trial, wrong: str | None, what: str, remedy: str) -> None:
    if wrong is None:
        trial.passed(what)
    else:
        trial.advice.append(f"wrong with {what}: {wrong}; {remedy}")
