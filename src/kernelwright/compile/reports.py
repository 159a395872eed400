"""What became of each graph: what runs, why, and what that saves."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelwright.core.delivered import COMPILED_KERNELS, KERNELS
from kernelwright.core.record import Record

RUNS = {KERNELS: "our kernels", COMPILED_KERNELS: "our kernels and Inductor's code"}
INDUCTOR = "Inductor's code"


@dataclass(frozen=True, kw_only=True, slots=True)
class FragmentReport:
    """A part of a graph that was searched."""

    operators: tuple[str, ...]
    runs: str
    """"kernel" or "Inductor"."""
    why: str
    saving_ms: float | None
    """Milliseconds that a call saves against eager PyTorch; None where nothing was timed."""


@dataclass(kw_only=True, slots=True)
class GraphReport:
    """A graph that Dynamo had compiled."""

    number: int
    num_calls: int
    """Calls in Dynamo's graph."""
    runs: str = INDUCTOR
    why: str = ""
    speedup: float | None = None
    """Over torch.compile, as the search measured; None where nothing of ours runs."""
    fragments: Sequence[FragmentReport] = field(default_factory=tuple)
    outside: Sequence[str] = field(default_factory=tuple)
    """Operators that no kernel of ours computes, each once."""

    def keeps_inductor(self, why: str) -> None:
        """Inductor's code runs, for this reason."""
        self.runs, self.why, self.speedup = INDUCTOR, why, None

    def read(self, records: Sequence[Record]) -> None:
        """Take over what the records of a search say, of which the last is the result."""
        result = records[-1]
        self.fragments = [_fragment(r) for r in records if r["record"] == "fragment"]
        programs = [record for record in records if record["record"] == "program"]
        calls = programs[0]["calls"] if programs else []
        self.outside = list(dict.fromkeys(c["op"] for c in calls if c["fragment"] is None))
        self.why = result["outcome"]["message"]
        over_compile = result.get("speedups", {}).get("over_compile")
        if result["form"] in RUNS:
            self.runs = RUNS[result["form"]]
            self.speedup = over_compile[0] if over_compile else None

    def __str__(self) -> str:
        speedup = f", {self.speedup:.2f}x of torch.compile" if self.speedup else ""
        lines = [f"graph {self.number} ({self.num_calls} calls): {self.runs}{speedup}"]
        if self.why:
            lines.append(f"  why: {self.why}")
        for fragment in self.fragments:
            saving = f", saves {fragment.saving_ms:.3f} ms" if fragment.saving_ms else ""
            operators = ", ".join(fragment.operators)
            lines.append(f"  {fragment.runs}{saving}: {operators} ({fragment.why})")
        if self.outside:
            lines.append(f"  without a kernel: {', '.join(self.outside)}")
        return "\n".join(lines)


def _fragment(record: Record) -> FragmentReport:
    eager, best = record["eager"], record["best"]
    has_kernel = record["source"] is not None
    is_timed = has_kernel and eager is not None and best is not None
    return FragmentReport(
        operators=tuple(record["ops"]),
        runs="kernel" if has_kernel else "Inductor",
        why=record["reason"],
        saving_ms=eager["median_ms"] - best["median_ms"] if is_timed else None,
    )
