"""Where answers come from: one protocol, and a module for each source.

A source is made once a process, from the options of a recipe's part. It never judges: what it gives
is a claim, like any candidate.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from kernelwright.core.candidate import Candidate
from kernelwright.core.record import Record
from kernelwright.policy.prompt import Request

SOURCES = {
    "teacher": "kernelwright.data.pairs.teacher:TeacherSource",
    "inductor": "kernelwright.data.inductor.source:InductorSource",
}
"""Name in recipes -> where its class is; it is made with the part's options by keyword."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One answer of a source, or why there is none."""

    candidate: Candidate | None
    refused: str = ""
    """A word or two; counted in the data card."""
    reasoning: str = ""
    provenance: Record = field(default_factory=dict)


class AnswerSource(Protocol):
    licence: str
    """Of what it writes."""

    def answers(self, request: Request, *, limit: int, seed: int) -> list[Written]:
        """At most `limit` answers, different ones; equal seeds, equal answers, where the source
        can promise that.

        Raises:
            InfraError: what it asks cannot be reached; nothing is said of the request.
        """


def make_source(name: str, options: Mapping[str, Any]) -> AnswerSource:
    """The source that recipes call so.

    Raises:
        UsageError: an option that it does not take, or what it needs is not there.
    """
    module, _, cls = SOURCES[name].partition(":")
    made: AnswerSource = getattr(import_module(module), cls).of(options)
    return made
