"""Bytes and launches of PyTorch, and of a candidate by its plan: the estimate where nothing is
timed."""

from collections.abc import Iterable

from kernelwright.core.candidate import Candidate
from kernelwright.programs.fragment import RELABELLING, part_of
from kernelwright.programs.program import Call, Program


def eager_bytes(program: Program, calls: Iterable[Call]) -> int:
    """Of these calls in PyTorch: each reads its inputs and writes its outputs once; views are
    free."""
    return sum(program.bytes_of(call) for call in calls if call.op not in RELABELLING)


def eager_launches(calls: Iterable[Call]) -> int:
    """Kernels that PyTorch launches for these calls: one each; views launch none."""
    return sum(call.op not in RELABELLING for call in calls)


def kernel_launches(candidate: Candidate) -> int:
    """Kernels that a candidate launches by its plan; one where it has no plan."""
    return max(len(candidate.plan), 1)


def launches_added(calls: Iterable[Call], candidate: Candidate) -> int:
    """Kernels that a candidate launches beyond PyTorch's for the same calls. How many PyTorch
    launches for a call without an operator record (a recurrent layer, say) is unknown: then a
    candidate is taken to launch no more."""
    calls = list(calls)
    added = kernel_launches(candidate) - eager_launches(calls)
    return min(added, 0) if any(call.is_extern for call in calls) else added


def moved_bytes(program: Program, candidate: Candidate) -> int:
    """Of the parts that the plan cuts the program into, each of which reads what it is given and
    writes what it makes once. A plan without parts makes one of all calls; one whose parts are none
    saves nothing."""
    parts = {kernel.part for kernel in candidate.plan if kernel.part}
    if not parts:
        return program.bytes_fused()
    cut = [
        [i for i, call in enumerate(program.calls) if set(call.outputs) & set(part)]
        for part in parts
    ]
    wanted = {i for i, call in enumerate(program.calls) if call.op not in RELABELLING}
    if not wanted <= {i for calls in cut for i in calls}:
        return eager_bytes(program, program.calls)
    try:
        return sum(part_of(program, calls).bytes_fused() for calls in cut)
    except ValueError:  # no part of a program
        return eager_bytes(program, program.calls)
