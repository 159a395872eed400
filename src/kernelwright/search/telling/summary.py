"""The code that runs for a program, the reasons, and the time saved: lines of text from the records
of a search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from kernelwright.core.delivered import COMPUTED_BY
from kernelwright.core.record import Record

_BASELINES = {"over_compile": "torch.compile", "over_eager": "PyTorch"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FragmentReport:
    """A part of a program that was searched."""

    operators: tuple[str, ...]
    has_kernel: bool
    why: str
    saving_ms: float | None
    """Milliseconds that a call saves against eager PyTorch; None where nothing was timed."""

    @classmethod
    def of(cls, fragment: Record) -> Self:
        """
        Args:
            fragment: a record of the kind "fragment".
        """
        eager, best = fragment["eager"], fragment["best"]
        has_kernel = fragment["source"] is not None
        is_timed = has_kernel and eager is not None and best is not None
        return cls(
            operators=tuple(fragment["ops"]),
            has_kernel=has_kernel,
            why=fragment["reason"],
            saving_ms=eager["median_ms"] - best["median_ms"] if is_timed else None,
        )

    def __str__(self) -> str:
        saving = f", saves {self.saving_ms:.3f} ms" if self.saving_ms else ""
        part = "kernel" if self.has_kernel else "no kernel"
        return f"{part}{saving}: {', '.join(self.operators)} ({self.why})"


def fragments_of(records: Sequence[Record]) -> tuple[FragmentReport, ...]:
    """The fragments among the records of a search, those with kernels first."""
    reports = [FragmentReport.of(r) for r in records if r["record"] == "fragment"]
    return tuple(sorted(reports, key=lambda report: not report.has_kernel))


def headline(result: Record) -> str:
    """The code that runs, and how much faster that is, in one line.

    Args:
        result: the result record of a search.
    """
    speedups = result.get("speedups", {})
    ratios = [
        f"{speedups[key][0]:.2f}x of {baseline}"
        for key, baseline in _BASELINES.items()
        if key in speedups
    ]
    return ", ".join([COMPUTED_BY[result["form"]], *ratios])
