"""Candidates for fragments around reductions over one set of axes."""

import random
from collections.abc import Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.reduce_plan import Schedule, schedules
from kernelwright.teacher.reduce_rows import write_looped, write_one_pass
from kernelwright.teacher.reduce_split import write_two_pass
from kernelwright.teacher.space import collapse
from kernelwright.teacher.stages import fused_ops, stage_of

_FORMS = {"one_pass": write_one_pass, "looped": write_looped, "two_pass": write_two_pass}


def classify(program: Program) -> bool:
    """Whether the program's work is around reductions over one set of axes."""
    stage = stage_of(program)
    return stage is not None and bool(stage.reduced)


def write(program: Program, *, limit: int, seed: int, precision: str) -> list[Candidate]:  # noqa: ARG001
    """Candidates, best first."""
    stage = stage_of(program)
    if stage is None or not stage.reduced:
        return []
    space = collapse(stage)
    ops = fused_ops(program)
    chosen = _chosen(schedules(space), limit, seed)
    return [_FORMS[s.form](program, stage, space, ops, s) for s in chosen]


def _chosen(found: Sequence[Schedule], limit: int, seed: int) -> list[Schedule]:
    """The first ones as they stand, the rest in drawn order."""
    found = list(dict.fromkeys(found))
    head, tail = found[:4], found[4:]
    random.Random(seed).shuffle(tail)
    return [*head, *tail][:limit]
