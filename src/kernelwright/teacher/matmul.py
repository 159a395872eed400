"""Candidates of the matmul family."""

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program


def classify(program: Program) -> bool:
    """Whether `write` has a form for the program."""
    return False


def write(program: Program, *, limit: int, seed: int, precision: str) -> list[Candidate]:
    """Candidates, best first; none where no form fits."""
    return []
