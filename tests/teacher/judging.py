"""Candidates on trial: run in the interpreter, compared with fp64 by the judge's own rule."""

from collections.abc import Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.programs import reference
from kernelwright.programs.program import Program
from kernelwright.sandbox.forkserver import shared
from kernelwright.sandbox.guest import Limits
from kernelwright.verify.compare import Expected, compare

LIMITS = Limits(wall_s=120.0)


def faults(program: Program, candidates: Sequence[Candidate], family: str = "plain") -> list[str]:
    """What is wrong with each candidate, one line each; nothing where all are right."""
    inputs = reference.make_inputs(program, 1, family=family)
    expected = Expected(
        native=tuple(reference.run(program, inputs)),
        oracle=tuple(reference.run(program, inputs, dtype=reference.torch.float64)),
    )
    found = []
    with shared("cpu").guest(LIMITS) as guest:
        for candidate in candidates:
            guest.load(candidate.source)
            ran = guest.run("candidate", inputs, seed=0)
            mismatch = compare(ran.outputs, expected, "strict").mismatch
            if mismatch:
                found.append(f"{candidate.schedule}: {mismatch.message}\n{candidate.source}")
            if ran.changed_inputs:
                found.append(f"{candidate.schedule}: changes its inputs")
            if set(ran.launches) != {plan.kernel for plan in candidate.plan}:
                found.append(f"{candidate.schedule}: launched {ran.launches}")
    return found
