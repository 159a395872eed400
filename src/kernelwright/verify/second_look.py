"""A second look at outputs that are wrong by little: does the computation itself magnify rounding?

The bound is the reference's own error, and that is one draw: where few elements carry the answer
(a scalar, an exponential of outliers) it can be near zero by luck, or because PyTorch computes a
part in float64 (batch statistics on a CPU). So inputs and what each operator makes are moved by
an ulp, several times where few elements count, and what that makes of the fp64 answer is allowed
too.
"""

from dataclasses import replace
from typing import Any

from kernelwright.core.verdict import ErrorFigures
from kernelwright.verify.compare import Expected, Precision, effective_count, share_of_allowed
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import WrongOutputs
from kernelwright.verify.task import Task

CLOSE = 16.0
"""Errors up to this many times the bound get a second look."""
NUDGES = 8
"""For an answer that one element carries; fewer for more."""
FEW_NUDGES, SMALL = 4, 1 << 20
"""At least so many where answers have no more elements than this: they cost nothing, and many
elements may owe their errors to few (a channel of a batch that hardly varies)."""


def deserves(wrong: WrongOutputs, rules: Rules) -> bool:
    """Close enough to be rounding. The policy `kernelbench` knows no such thing."""
    return is_close(wrong.errors) and rules.precision is not Precision.KERNELBENCH


def is_close(errors: ErrorFigures | None) -> bool:
    """They may be rounding."""
    return errors is not None and share_of_allowed(errors) <= CLOSE


def tolerant(
    task: Task, inputs: list[Any], seed: int, expected: Expected, rules: Rules
) -> Expected:
    """The same expectation, allowing what an ulp in inputs and results of operators does."""
    floats = [output for output in expected.oracle if output.is_floating_point()]
    fewest = min(map(effective_count, floats), default=1.0)
    least = FEW_NUDGES if sum(output.numel() for output in floats) <= SMALL else 1
    nudged = tuple(
        task.nudged(inputs, seed, rules.device, number)
        for number in range(max(least, round(NUDGES / max(fewest, 1.0))))
    )
    return replace(expected, tolerated=(*expected.tolerated, *nudged))
