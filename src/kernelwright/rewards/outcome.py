"""The outcome of an answer: the facts that every reward is computed from.

If our side fails, an answer has no outcome. Callers leave such an answer out and never count it as
wrong.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from kernelwright.core.verdict import Code, Stage, Verdict

CHEATS = frozenset(
    {
        Code.NO_KERNEL,
        Code.FORBIDDEN,
        Code.NOT_LAUNCHED,
        Code.DECOY,
        Code.LIBRARY_COMPUTE,
        Code.TAMPERED,
        Code.SETTINGS_CHANGED,
        Code.LEFT_RUNNING,
        Code.IMPLAUSIBLE_TIME,
        Code.MALFORMED,
        Code.ALIASED,
        Code.INPUT_CHANGED,
    }
)
"""Codes of answers that pretend to be a kernel, or that help an answer to pretend. Such an
answer earns nothing for how far it came."""


class Reached(IntEnum):
    """How far an answer came."""

    NOTHING = 0
    """No candidate can be read out of it."""
    READABLE = 1
    PARSED = 2
    """Python, and static rules found nothing."""
    COMPILED = 3
    RAN = 4
    """It ran on every input that it was called with, but values are wrong."""
    CORRECT = 5


_REACHED = {
    Stage.STATIC: Reached.READABLE,
    Stage.COMPILE: Reached.PARSED,
    Stage.RUN: Reached.COMPILED,
    Stage.COMPARE: Reached.RAN,
    Stage.PROBE: Reached.RAN,
    Stage.TIMING: Reached.RAN,
    Stage.ACCEPTED: Reached.CORRECT,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How far an answer came, whether it cheated, and how fast it is."""

    reached: Reached
    cheats: bool
    """The answer was refused with one of `CHEATS`."""
    speedup: float
    """The speed-up of a correct answer over PyTorch; 1 where nothing was timed, or the answer is
    not correct."""
    is_timed: bool = False
    """`speedup` was measured."""
    modelled: float | None = None
    """Estimated speed-up of a correct answer over PyTorch, by bytes and launches; never a time."""

    @property
    def is_correct(self) -> bool:
        return self.reached is Reached.CORRECT

    @property
    def is_valid(self) -> bool:
        """Its own kernels do the work, as far as it came: TritonRL's syntax and func."""
        return self.reached >= Reached.PARSED and not self.cheats

    @classmethod
    def of(cls, verdict: Verdict | None, modelled: float | None = None) -> Self:
        """The outcome that a verdict stands for.

        Args:
            verdict: None where the answer holds no candidate.
            modelled: the estimated speed-up over PyTorch; dropped unless the verdict accepts.
        """
        if verdict is None:
            return cls(reached=Reached.NOTHING, cheats=False, speedup=1.0)
        return cls(
            reached=_REACHED[verdict.stage],
            cheats=verdict.code in CHEATS,
            speedup=(verdict.speedup or 1.0) if verdict.accepted else 1.0,
            is_timed=verdict.accepted and verdict.speedup is not None,
            modelled=modelled if verdict.accepted else None,
        )
