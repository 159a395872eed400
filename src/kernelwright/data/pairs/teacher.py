"""The teacher's answers: whole programs as kernels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kernelwright.core import strict
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.data.pairs.answers import TEACHER_BEST, WrittenAnswer
from kernelwright.policy.prompt import Request
from kernelwright.teacher.whole import write_best, write_whole


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherSource:
    """Cuts and schedules drawn by chance, and `best` answers with the least estimated time."""

    best: int = 0
    """Answers beyond those that the part asks for. A pair of such an answer says "teacher-best" as
    its source, so that a training can weigh these pairs apart."""
    calls: int | None = None
    """The most calls of a kernel of a best answer; None: any number. A model writes small kernels
    correctly first (docs/LOG.md)."""

    licence = "Apache-2.0"

    def __post_init__(self) -> None:
        if self.best < 0:
            raise UsageError("options.best is at least 0", remedy="see docs/data.md")
        if self.calls is not None and self.calls < 1:
            raise UsageError("options.calls is at least 1", remedy="see docs/data.md")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        return strict.read(cls, options, "options")

    def answers(self, request: Request, *, limit: int, seed: int) -> list[WrittenAnswer]:
        """At most `limit` answers with different cuts and schedules, then at most `best` of the
        fastest by estimate.

        A best answer can equal a drawn one. If some call has no form, there is a single answer that
        says so.
        """
        program, precision = request.program, request.precision
        drawn, best = list[Candidate](), list[Candidate]()
        if limit:
            drawn = write_whole(program, limit=limit, seed=seed, precision=precision)
        # A program without a drawn answer has a call without a form, so no best answer either.
        if self.best and (drawn or not limit):
            best = write_best(program, limit=self.best, calls=self.calls, precision=precision)
        return [
            *(WrittenAnswer(candidate=candidate) for candidate in drawn),
            *(WrittenAnswer(candidate=candidate, source=TEACHER_BEST) for candidate in best),
        ] or [WrittenAnswer(candidate=None, refused="no form")]
