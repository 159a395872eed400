"""The programs inside a program: its convex connected parts that a kernel could compute."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from kernelwright.core.record import Record
from kernelwright.programs.fragments.fragment import (
    RELABELLING,
    CallGraph,
    enumerate_fragments,
    extract,
)
from kernelwright.programs.program import Program
from kernelwright.programs.record import program_record

MAX_PARTS_A_CALL = 1_000
"""Parts with the same first call that are looked at; there may be exponentially many."""


@dataclass(slots=True)
class Parts:
    """The parts of one program that are programs themselves, and counts of those left out."""

    program: Program
    max_calls: int
    levels: Collection[int] = ()
    """Numbers of calls that are wanted; all up to `max_calls` where empty."""
    counts: Counter[str] = field(default_factory=Counter)
    """"parts" looked at, "repeated" within the program, left out by "level", or for their
    calls: "extern", "views", "random". "cut" counts first calls with MAX_PARTS_A_CALL parts."""

    def records(self) -> Iterator[Record]:
        """Records of the different parts, each with the numbers of its calls in the whole.

        `counts` is complete when all records are taken.
        """
        seen: set[str] = set()
        num_parts: Counter[int] = Counter()
        graph = CallGraph(self.program)
        for calls in enumerate_fragments(self.program, self.max_calls, MAX_PARTS_A_CALL):
            self.counts["parts"] += 1
            num_parts[min(calls)] += 1
            self.counts["cut"] += num_parts[min(calls)] == MAX_PARTS_A_CALL
            if reason := self._reason_against(calls):
                self.counts[reason] += 1
                continue
            record = program_record(extract(self.program, calls, graph).program)
            if record["fingerprint"] in seen:
                self.counts["repeated"] += 1
                continue
            seen.add(record["fingerprint"])
            yield record | {"calls_in_module": sorted(calls)}
        self.counts = +self.counts

    def _reason_against(self, part: frozenset[int]) -> str | None:
        """The reason to leave a part out, a key of `counts`; None if it is wanted."""
        calls = [self.program.calls[i] for i in part]
        if self.levels and len(calls) not in self.levels:
            return "level"
        if any(call.is_extern for call in calls):
            return "extern"
        if all(call.op in RELABELLING for call in calls):
            return "views"
        return "random" if any(call.is_random for call in calls) else None
