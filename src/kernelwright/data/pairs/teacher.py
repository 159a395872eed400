"""The teacher's answers: whole programs as kernels, cuts and schedules drawn by chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kernelwright.core import strict
from kernelwright.data.pairs.answers import Written
from kernelwright.policy.prompt import Request
from kernelwright.teacher.whole import write_whole


@dataclass(frozen=True, slots=True)
class TeacherSource:
    licence = "Apache-2.0"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        return strict.read(cls, options, "options")

    def answers(self, request: Request, *, limit: int, seed: int) -> list[Written]:
        """Different cuts and schedules; none where some call has no form."""
        found = write_whole(request.program, limit=limit, seed=seed, precision=request.precision)
        if not found:
            return [Written(candidate=None, refused="no form")]
        return [Written(candidate=candidate) for candidate in found]
