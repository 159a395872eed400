"""Candidates for fragments around reductions over one set of axes."""

from functools import partial

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.reduction.plan import schedules
from kernelwright.teacher.reduction.rows import write_looped, write_one_pass
from kernelwright.teacher.reduction.split import write_two_pass
from kernelwright.teacher.source import WrapperPart, assemble
from kernelwright.teacher.stages import stages_of
from kernelwright.teacher.text.fixed_sizes import StageSchedule, with_fixed
from kernelwright.teacher.text.space import collapse
from kernelwright.teacher.ways import Way, is_writable

_STAGE_NAMES = ("rows", "total")
_FORMS = {"one_pass": write_one_pass, "looped": write_looped, "two_pass": write_two_pass}


def classify(program: Program) -> bool:
    """Whether reductions over one set of axes, or over two sets in turn, compute the program."""
    stages = stages_of(program)
    if not stages or not stages[0].reduced or len(stages) > len(_STAGE_NAMES):
        return False
    # Whether a pulled value has kernel text shows only when the lines are written.
    is_pulled = bool(stages[0].graph.pulled)
    return not is_pulled or is_writable(lambda: ways(program, "strict")[0].write())


def ways(program: Program, precision: str) -> list[Way]:  # noqa: ARG001
    """Every way to write the program, best first."""
    first, *later = stages = stages_of(program)
    names = _STAGE_NAMES if later else ("",)

    def part(at: int, schedule: StageSchedule) -> WrapperPart:
        return _FORMS[schedule.form](collapse(stages[at]), schedule, names[at])

    def write(schedule: StageSchedule) -> Candidate:
        # Later stages are small beside the first: their best does for every candidate.
        rest = [part(at, schedules(collapse(stage))[0]) for at, stage in enumerate(later, 1)]
        return assemble(program, [part(0, schedule), *rest])

    space = collapse(first)
    distinct = dict.fromkeys(with_fixed(schedules(space), space))
    return [Way(schedule.form, partial(write, schedule)) for schedule in distinct]
