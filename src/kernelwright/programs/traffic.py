"""The cost model: bytes and launches of PyTorch, and of a candidate by its plan.

Estimates stand in for times where nothing is timed. Records never mix both.
"""

from collections.abc import Iterable, Mapping

from kernelwright.core.candidate import Candidate
from kernelwright.programs.fragments.fragment import RELABELLING, part_of
from kernelwright.programs.program import Call, Program

BYTES_PER_S = 4e12
"""Memory throughput that large kernels reach on an H200."""
LAUNCH_S = 4e-6
"""Seconds from the start of one small kernel to the start of the next."""


def eager_bytes(program: Program, calls: Iterable[Call]) -> int:
    """Bytes of these calls in PyTorch: a call reads its inputs and writes its outputs once; views
    are free."""
    return sum(program.bytes_of(call) for call in calls if call.op not in RELABELLING)


def eager_launches(calls: Iterable[Call]) -> int:
    """Kernels that PyTorch launches for these calls: one each; views launch none."""
    return sum(call.op not in RELABELLING for call in calls)


def kernel_launches(candidate: Candidate) -> int:
    """Kernels that a candidate launches by its plan; one where it has no plan."""
    return max(len(candidate.plan), 1)


def launches_added(calls: Iterable[Call], candidate: Candidate) -> int:
    """How many more kernels a candidate launches than PyTorch does for the same calls.

    For a call without an operator record, such as a recurrent layer, PyTorch's number is unknown.
    The result is then at most 0.
    """
    calls = list(calls)
    added = kernel_launches(candidate) - eager_launches(calls)
    return min(added, 0) if any(call.is_extern for call in calls) else added


def moved_bytes(program: Program, candidate: Candidate) -> int:
    """Bytes that a candidate moves by its plan, which cuts the program into parts.

    A part reads its inputs and writes its outputs once. Without parts in the plan, all calls are
    one part. If the parts do not fit the program, the result is PyTorch's number of bytes.
    """
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


def eager_seconds(program: Program) -> float:
    """The estimated time of PyTorch."""
    num_bytes = eager_bytes(program, program.calls)
    return _seconds(num_bytes, max(eager_launches(program.calls), 1))


def cut_seconds(
    program: Program, parts: Iterable[frozenset[int]], launches: int | None = None
) -> float:
    """The estimated time of a cut into parts.

    Args:
        parts: numbers of calls.
        launches: of all parts; None where nobody has written the parts: one kernel for each part.
    """
    own = [part_of(program, calls) for calls in parts]
    return _seconds(sum(part.bytes_fused() for part in own), launches or len(own))


def planned_seconds(program: Program, candidate: Candidate) -> float:
    """The estimated time of a candidate that nobody has run: its plan is believed."""
    return _seconds(_planned_bytes(program, candidate), kernel_launches(candidate))


def modelled_speedup(program: Program, candidate: Candidate, launches: Mapping[str, int]) -> float:
    """The estimated speed-up over PyTorch of a candidate that was run.

    The launches are counted, not read in the plan: a model could claim one kernel and launch ten.
    A plan that names fewer kernels than were launched saves no bytes either.

    Args:
        launches: name of a kernel -> launches in one call, from the verdict.
    """
    counted = sum(launches.values())
    is_believed = counted <= len(candidate.plan)
    num_bytes = (
        _planned_bytes(program, candidate) if is_believed else eager_bytes(program, program.calls)
    )
    return eager_seconds(program) / _seconds(num_bytes, max(counted, 1))


def _planned_bytes(program: Program, candidate: Candidate) -> int:
    """Bytes by the plan; PyTorch's where there is no plan to believe."""
    if not candidate.plan:
        return eager_bytes(program, program.calls)
    return moved_bytes(program, candidate)


def _seconds(num_bytes: int, launches: int) -> float:
    return num_bytes / BYTES_PER_S + launches * LAUNCH_S
