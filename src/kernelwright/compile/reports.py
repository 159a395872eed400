"""The outcome of each graph: the code that runs, the reason, and the time saved."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.core.delivered import COMPUTED_BY, OURS
from kernelwright.core.record import Record
from kernelwright.search.telling.summary import FragmentReport, fragments_of

INDUCTOR = "Inductor's code"
FAULT = "kernelwright failed"
"""The begin of a reason that is a fault of ours."""
_KERNEL = re.compile(r"^@triton\.jit\n+def (\w+)", re.MULTILINE)


@dataclass(kw_only=True, slots=True)
class GraphReport:
    """A graph that Dynamo had compiled."""

    number: int
    num_calls: int
    """Calls in Dynamo's graph."""
    part: str = ""
    """"forward" or "backward" where gradients are wanted."""
    graph_break: str = ""
    """Why Dynamo ended the graph; "" where the function ends."""
    runs: str = INDUCTOR
    why: str = ""
    speedup: float | None = None
    """Over torch.compile, as the search measured; None where nothing of ours runs."""
    fragments: Sequence[FragmentReport] = field(default_factory=tuple)
    outside: Sequence[str] = field(default_factory=tuple)
    """Operators that no kernel of ours computes, each once."""
    left: Sequence[FragmentReport] = field(default_factory=tuple)
    """Fragments that were searched, and have calls that no kernel of ours computes."""
    kernels: Sequence[str] = field(default_factory=tuple)
    """Names of the Triton kernels of ours that run."""

    def keeps_inductor(self, why: str) -> None:
        """Inductor's code runs, for this reason."""
        self.runs, self.why, self.speedup, self.kernels = INDUCTOR, why, None, ()

    def read(self, records: Sequence[Record]) -> None:
        """Take over what the records of a search say, of which the last is the result."""
        result = records[-1]
        self.fragments = fragments_of(records)
        programs = [record for record in records if record["record"] == "program"]
        calls = programs[0]["calls"] if programs else []
        covered = {number for number, c in enumerate(calls) if c["fragment"] is not None}
        searched = [record for record in records if record["record"] == "fragment"]
        self.left = fragments_of([f for f in searched if not covered.issuperset(f["calls"])])
        self.outside = list(dict.fromkeys(c["op"] for c in calls if c["fragment"] is None))
        self.why = result["outcome"]["message"]
        over_compile = result.get("speedups", {}).get("over_compile")
        if result["form"] in OURS:
            self.runs = COMPUTED_BY[result["form"]]
            self.kernels = tuple(_KERNEL.findall(result.get("source") or ""))
            self.speedup = over_compile[0] if over_compile else None

    def __str__(self) -> str:
        speedup = f", {self.speedup:.2f}x of torch.compile" if self.speedup else ""
        part = f"{self.part}, " if self.part else ""
        lines = [f"graph {self.number} ({part}{self.num_calls} calls): {self.runs}{speedup}"]
        if self.why:
            lines.append(f"  why: {self.why}")
        lines += [f"  {fragment}" for fragment in self.fragments]
        if self.outside:
            lines.append(f"  without a kernel: {', '.join(self.outside)}")
        if self.graph_break:
            lines.append(f"  graph break: {self.graph_break}")
        return "\n".join(lines)
