"""Accepted `recycled`, judged again `fresh`: the best of each task, and a random share of the rest.

A recycled guest may have been spoiled by an earlier candidate without its attestation showing it.
Whoever relies on that grade's verdicts audits them; where the two differ, the fresh one holds and
the difference is reported: it means that a candidate got past the attestation, or a bug of ours.
"""

import math
import secrets
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Verdict
from kernelwright.verify.judge import Judge
from kernelwright.verify.task import Task

SHARE = 0.02
"""Of the accepted candidates."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with its verdict under the grade `recycled`."""

    task: Task
    candidate: Candidate
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Audited:
    number: int
    """Among those that were judged."""
    recycled: Verdict
    fresh: Verdict
    """The one that holds."""

    @property
    def disagrees(self) -> bool:
        return self.recycled.accepted != self.fresh.accepted


def audit(judge: Judge, judged: Sequence[Judged], share: float = SHARE) -> Iterator[Audited]:
    """Judge again what `chosen` picks; see that none `disagrees`.

    Raises:
        UsageError: the judge is not of the grade `fresh`.
        InfraError: as `Judge.verify`.
    """
    if judge.grade != "fresh":
        raise UsageError("an audit needs a judge of the grade fresh", remedy='grade="fresh"')
    for number in chosen([each.verdict for each in judged], [e.task for e in judged], share):
        each = judged[number]
        yield Audited(number, each.verdict, judge.verify(each.task, each.candidate))


def chosen(
    verdicts: Sequence[Verdict], tasks: Sequence[Hashable], share: float = SHARE
) -> list[int]:
    """Numbers of those to judge again: each task's fastest, where there are times, and a share of
    all accepted, at least one, that nobody can foresee."""
    accepted = [number for number, verdict in enumerate(verdicts) if verdict.accepted]
    fastest: dict[Hashable, int] = {}
    for number in accepted:
        speedup, task = verdicts[number].speedup, tasks[number]
        if speedup is None:
            continue
        best = verdicts[fastest[task]].speedup if task in fastest else None
        if best is None or speedup > best:
            fastest[task] = number
    count = math.ceil(share * len(accepted))
    return sorted({*fastest.values(), *secrets.SystemRandom().sample(accepted, count)})
