"""Candidates for fragments around reductions over one set of axes."""

import random
from collections.abc import Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.decompose import Rule, decompose
from kernelwright.teacher.expressions import NotWritable, is_pointwise
from kernelwright.teacher.graph import Stage
from kernelwright.teacher.reduce_plan import Schedule, schedules
from kernelwright.teacher.reduce_rows import write_looped, write_one_pass
from kernelwright.teacher.reduce_split import write_two_pass
from kernelwright.teacher.reductions import REDUCTIONS
from kernelwright.teacher.space import collapse
from kernelwright.teacher.views import VIEWS

COMPOSITES: dict[str, Rule] = {**REDUCTIONS}
_RULES: dict[str, Rule] = {**VIEWS, **COMPOSITES}
_FORMS = {"one_pass": write_one_pass, "looped": write_looped, "two_pass": write_two_pass}


def classify(program: Program) -> bool:
    """Whether the program reduces, by operators with a rule, and its reductions agree on axes."""
    ops = [call.op for call in program.calls]
    if not any(op in COMPOSITES for op in ops):
        return False
    if not all(is_pointwise(op) or op in _RULES for op in ops):
        return False
    return _decomposed(program) is not None


def write(program: Program, *, limit: int, seed: int, precision: str) -> list[Candidate]:  # noqa: ARG001
    """Candidates, best first; none where the reductions run over different axes."""
    stage = _decomposed(program)
    if stage is None:
        return []
    space = collapse(stage)
    ops = [call.op for call in program.calls if call.op not in VIEWS]
    chosen = _chosen(schedules(space), limit, seed)
    return [_FORMS[s.form](program, stage, space, ops, s) for s in chosen if s.form in _FORMS]


def _decomposed(program: Program) -> Stage | None:
    try:
        stage = decompose(program, _RULES)
    except NotWritable:
        return None
    return stage if stage.reduced and stage.outputs else None


def _chosen(found: Sequence[Schedule], limit: int, seed: int) -> list[Schedule]:
    """The first ones as they stand, the rest in drawn order."""
    found = list(dict.fromkeys(found))
    head, tail = found[:4], found[4:]
    random.Random(seed).shuffle(tail)
    return [*head, *tail][:limit]
