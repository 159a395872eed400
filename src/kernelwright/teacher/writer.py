"""Program in, diverse Triton candidates out: the families' dispatch."""

from collections.abc import Callable
from typing import Protocol

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher import (
    attention,
    convolution,
    matmul,
    movement,
    pointwise,
    pooling,
    recurrence,
    reduction,
    scan,
)


class Writer(Protocol):
    def __call__(
        self, program: Program, *, limit: int, seed: int, precision: str
    ) -> list[Candidate]: ...


_FAMILIES: dict[str, tuple[Callable[[Program], bool], Writer]] = {
    "pointwise": (pointwise.classify, pointwise.write),
    "reduction": (reduction.classify, reduction.write),
    "matmul": (matmul.classify, matmul.write),
    "convolution": (convolution.classify, convolution.write),
    "pooling": (pooling.classify, pooling.write),
    "attention": (attention.classify, attention.write),
    "scan": (scan.classify, scan.write),
    "movement": (movement.classify, movement.write),
}
_OF_EXTERNS: dict[str, tuple[Callable[[Program], bool], Writer]] = {
    "recurrence": (recurrence.classify, recurrence.write),
}
"""Families of calls without an operator record."""


def family(program: Program) -> str | None:
    """Which family writes the program, found without writing code; None: not writable."""
    if not program.calls:
        return None
    families = _OF_EXTERNS if any(call.is_extern for call in program.calls) else _FAMILIES
    return next((name for name, (owns, _) in families.items() if owns(program)), None)


def write(
    program: Program, *, limit: int = 8, seed: int = 0, precision: str = "strict"
) -> list[Candidate]:
    """Distinct candidates for a program, best first by the teacher's own judgement.

    Args:
        limit: at most this many.
        seed: of the draws that make further candidates diverse; equal seeds, equal candidates.
        precision: "strict", "tf32" or "kernelbench": which dot precisions may be used.

    Returns:
        An empty list where the program is not writable.
    """
    name = family(program)
    if name is None:
        return []
    _, writer = (_FAMILIES | _OF_EXTERNS)[name]
    return writer(program, limit=limit, seed=seed, precision=precision)
