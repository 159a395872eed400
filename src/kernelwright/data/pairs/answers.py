"""Sources of answers: one protocol, and a module for each source.

A source is made once in each process, from the options of a recipe's part. Its answers are claims,
as all candidates are. A source that asks again after a verdict returns the verdict too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from kernelwright.core.candidate import Candidate
from kernelwright.core.record import Record
from kernelwright.core.verdict import Verdict
from kernelwright.policy.prompt import Request

TEACHER = "teacher"
"""The one source whose answers are right by their making, so that judging a sample will do."""
TEACHER_BEST = "teacher-best"
"""In the column `source`: the teacher's answers with the least estimated time."""
SOURCES = {
    TEACHER: "kernelwright.data.pairs.teacher:TeacherSource",
    "inductor": "kernelwright.data.inductor.source:InductorSource",
    "llm": "kernelwright.data.pairs.llm:LlmSource",
}
"""Name in recipes -> where its class is; it is made with the part's options by keyword."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenAnswer:
    """One answer of a source, or why there is none."""

    candidate: Candidate | None
    refused: str = ""
    """A word or two; counted in the data card."""
    verdict: Verdict | None = None
    """Where the source had it judged."""
    reasoning: str = ""
    source: str = ""
    """In the column `source`, where that is not the name of the recipe's part."""
    provenance: Record = field(default_factory=dict)


class AnswerSource(Protocol):
    """A source of answers to programs."""

    licence: str
    """The licence of the answers."""

    def answers(self, request: Request, *, limit: int, seed: int) -> list[WrittenAnswer]:
        """At most `limit` different answers, or a single one that says why there is none.

        Equal seeds give equal answers, except from sources that ask a service.

        Raises:
            UsageError: a service refuses the source's requests.
            InfraError: a service cannot be reached. Nothing is known about the request.
        """


def make_source(name: str, options: Mapping[str, Any]) -> AnswerSource:
    """Make the source that has this name in recipes.

    Args:
        name: a key of `SOURCES`.

    Raises:
        UsageError: an option is unknown or wrong, or a library that the source needs is missing.
    """
    module, _, cls = SOURCES[name].partition(":")
    source: AnswerSource = getattr(import_module(module), cls).of(options)
    return source
