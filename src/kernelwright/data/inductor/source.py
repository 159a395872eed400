"""The source of TorchInductor's answers: its Triton code for a program, made to stand alone.

Inductor has one such code for a program. Several answers differ in their blocks alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kernelwright.core import strict
from kernelwright.core.record import version_of
from kernelwright.core.seed import derive
from kernelwright.data.inductor.harvest import NotHarvested, harvest
from kernelwright.data.inductor.reading import NotRewritten
from kernelwright.data.inductor.rewriting import rewrite
from kernelwright.data.pairs.answers import WrittenAnswer
from kernelwright.policy.prompt import Request


@dataclass(frozen=True, slots=True)
class InductorSource:
    """Answers by TorchInductor."""

    licence = "BSD-3-Clause"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        return strict.read(cls, options, "options")

    def answers(self, request: Request, *, limit: int, seed: int) -> list[WrittenAnswer]:
        """At most `limit` answers with different blocks, or one that says why there is none."""
        by_source: dict[str, WrittenAnswer] = {}
        provenance = {"torch": version_of("torch")}
        try:
            harvested = harvest(request.program)
            for number in range(limit):
                drawn = derive(seed, "blocks", number)
                candidate = rewrite(harvested, request.program, drawn, request.mode)
                answer = WrittenAnswer(candidate=candidate, provenance=provenance)
                by_source.setdefault(candidate.source, answer)
        except NotHarvested:
            return [WrittenAnswer(candidate=None, refused="inductor: not compiled")]
        except NotRewritten as error:
            return [WrittenAnswer(candidate=None, refused=f"inductor: {error}")]
        return list(by_source.values())
