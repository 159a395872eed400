"""Candidates for fragments around reductions over one set of axes."""

import random
from collections.abc import Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.graph import Stage
from kernelwright.teacher.reduce_plan import Schedule, schedules
from kernelwright.teacher.reduce_rows import write_looped, write_one_pass
from kernelwright.teacher.reduce_split import write_two_pass
from kernelwright.teacher.space import collapse
from kernelwright.teacher.stages import fused_ops, stages_of
from kernelwright.teacher.wrapper import Part, assemble

_STAGE_NAMES = ("rows", "total")
_FORMS = {"one_pass": write_one_pass, "looped": write_looped, "two_pass": write_two_pass}


def classify(program: Program) -> bool:
    """Whether the program's work is around reductions, of the same axes or in stages."""
    stages = stages_of(program)
    return bool(stages) and bool(stages[0].reduced) and len(stages) <= len(_STAGE_NAMES)


def write(program: Program, *, limit: int, seed: int, precision: str) -> list[Candidate]:  # noqa: ARG001
    """Candidates, best first."""
    if not classify(program):
        return []
    stages = stages_of(program)
    written = [
        _parts(program, stage, stages, limit, seed, _STAGE_NAMES[at] if len(stages) > 1 else "")
        for at, stage in enumerate(stages)
    ]
    # Later stages are small beside the first: their best does for every candidate.
    return [assemble(program, [part, *(later[0] for later in written[1:])]) for part in written[0]]


def _parts(
    program: Program, stage: Stage, stages: Sequence[Stage], limit: int, seed: int, suffix: str
) -> list[Part]:
    space, ops = collapse(stage), fused_ops(program, stage, stages)
    chosen = _chosen(schedules(space), limit, seed)
    return [_FORMS[s.form](stage, space, ops, s, suffix) for s in chosen]


def _chosen(found: Sequence[Schedule], limit: int, seed: int) -> list[Schedule]:
    """The first ones as they stand, the rest in drawn order."""
    found = list(dict.fromkeys(found))
    head, tail = found[:4], found[4:]
    random.Random(seed).shuffle(tail)
    return [*head, *tail][:limit]
