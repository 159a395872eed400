"""Programs as stages: the table of rules, and the decomposition that families share."""

from functools import lru_cache

from kernelwright.programs.program import Program
from kernelwright.teacher.decompose import Rule, decompose
from kernelwright.teacher.expressions import NotWritable
from kernelwright.teacher.graph import Stage
from kernelwright.teacher.norms import NORMS
from kernelwright.teacher.reductions import REDUCTIONS
from kernelwright.teacher.views import VIEWS

RULES: dict[str, Rule] = {**VIEWS, **REDUCTIONS, **NORMS}
"""Operators that are not pointwise -> rule."""
FREE = VIEWS.keys() - {"to_layout"}
"""Operators that are no work of their own inside a kernel."""


@lru_cache(maxsize=64)
def stage_of(program: Program) -> Stage | None:
    """The program as one stage; None where it is none, or nothing is computed."""
    if all(call.op in FREE for call in program.calls):
        return None
    try:
        stage = decompose(program, RULES)
    except NotWritable:
        return None
    return stage if stage.inputs and stage.outputs else None


def fused_ops(program: Program) -> list[str]:
    """Names of the operators that a plan lists."""
    return [call.op for call in program.calls if call.op not in FREE]
