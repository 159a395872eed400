"""Gaps in plans: a kernel reads a value that no earlier kernel computes.

A wrapper that lacks a kernel cannot be mended in its code alone. In one run, 47 of 83 wrong answers
to programs of twenty calls had such a plan, and no right answer (docs/LOG.md).
"""

from collections.abc import Sequence

from kernelwright.core.candidate import KernelPlan
from kernelwright.programs.fragments.fragment import RELABELLING
from kernelwright.programs.program import Program


def first_gap(plan: Sequence[KernelPlan], program: Program) -> int | None:
    """The place in the plan where a kernel is missing.

    A program may have copies of views in its text, and wrappers make these without a kernel. So a
    view of a known value is known.

    Returns:
        The index of the first kernel that reads an unknown value. The number of kernels if an
        output of the program is unknown at the end. None if the plan has no gap.
    """
    known = {value.name for value in program.inputs}
    for number, kernel in enumerate(plan):
        _add_views(known, program)
        if not known.issuperset(kernel.reads):
            return number
        known.update(kernel.makes)
    _add_views(known, program)
    return None if known.issuperset(program.outputs) else len(plan)


def _add_views(known: set[str], program: Program) -> None:
    for call in program.calls:  # in program order, so a view of a view is known too
        if call.op in RELABELLING and known.issuperset(call.refs()):
            known.update(call.outputs)
