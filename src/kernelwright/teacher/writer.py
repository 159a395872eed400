"""Program in, diverse Triton candidates out: the families' dispatch."""

from itertools import islice
from typing import Protocol

from kernelwright.core.candidate import Candidate
from kernelwright.core.seed import derive
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.attention import writer as attention
from kernelwright.teacher.contraction import writer as matmul
from kernelwright.teacher.movement import writer as movement
from kernelwright.teacher.pointwise import writer as pointwise
from kernelwright.teacher.recurrence import writer as recurrence
from kernelwright.teacher.reduction import scan
from kernelwright.teacher.reduction import writer as reduction
from kernelwright.teacher.ways import Draw, Way, order, written
from kernelwright.teacher.window import convolution, pooling


class Family(Protocol):
    """The interface of a kernel family, which a module implements: pointwise, reduction, matmul and
    others."""

    def classify(self, program: Program) -> bool:
        """Whether the family can write the program."""

    def ways(self, program: Program, precision: str) -> list[Way]:
        """Every way to write a program that `classify` accepts, best first by an own estimate.

        Args:
            precision: "strict", "tf32" or "kernelbench": which dot precisions may be used.
        """


_FAMILIES: dict[str, Family] = {
    "pointwise": pointwise,
    "reduction": reduction,
    "matmul": matmul,
    "convolution": convolution,
    "pooling": pooling,
    "attention": attention,
    "scan": scan,
    "movement": movement,
}
_OF_EXTERNS: dict[str, Family] = {"recurrence": recurrence}
"""Families of calls without an operator record."""


def family(program: Program) -> str | None:
    """Name of the first family that accepts the program; None if no family does."""
    if not (program.calls and program.inputs):  # without inputs no device is named
        return None
    if not all(_has_kernel_types(program, call) for call in program.calls):
        return None
    families = _OF_EXTERNS if any(call.is_extern for call in program.calls) else _FAMILIES
    return next((name for name, kind in families.items() if kind.classify(program)), None)


def _has_kernel_types(program: Program, call: Call) -> bool:
    """Whether kernels can hold the operands and results of a call.

    No tile fits an empty tensor. Kernels compute in float32, so float64 is only cast.
    """
    types = (*map(program.type_of, call.refs()), *call.types)
    is_wide = any(value_type.dtype == "float64" for value_type in types)
    return (call.op == "to_dtype" or not is_wide) and not any(0 in t.shape for t in types)


def ways(program: Program, precision: str = "strict") -> list[Way]:
    """Every way to write the program, best first; an empty list if no family accepts it.

    Args:
        precision: "strict", "tf32" or "kernelbench": which dot precisions may be used.
    """
    name = family(program)
    return [] if name is None else (_FAMILIES | _OF_EXTERNS)[name].ways(program, precision)


def write(
    program: Program,
    *,
    limit: int = 8,
    seed: int = 0,
    precision: str = "strict",
    draw: Draw = "cost",
) -> list[Candidate]:
    """Distinct candidates for a program.

    Args:
        limit: at most this many.
        seed: of the draws that make candidates diverse; equal seeds, equal candidates.
        precision: "strict", "tf32" or "kernelbench": which dot precisions may be used.
        draw: "cost": two thirds are the best by the family's estimate; a third is drawn from the
            rest, so that a learning model sees more than favourites. "uniform": all candidates are
            drawn from all ways alike.

    Returns:
        An empty list where the program is not writable.
    """
    ordered = order(ways(program, precision), limit, derive(seed, "ways"), draw)
    return list(islice(written(ordered), limit))
