"""One optimize run, as its records tell it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedRun:
    run: Record
    """Target, options, environment, device."""
    program: Record
    fragments: tuple[Record, ...]
    candidates: tuple[Record, ...]
    result: Record

    def candidates_of(self, fragment: Any) -> list[Record]:
        return [c for c in self.candidates if c["fragment"] == fragment]


def read_run(path: Path) -> ReportedRun:
    """The last run in a records file (a folder that was used twice holds two).

    Raises:
        UsageError: a line is no record, or the run has no program or no result.
    """
    kinds: dict[str, list[Record]] = {}
    for item in record.read(path):
        if item.get("record") == "run":
            kinds = {}
        kinds.setdefault(str(item.get("record")), []).append(item)
    for kind in ("run", "program", "result"):
        if kind not in kinds:
            raise UsageError(
                f"no {kind!r} record", file=str(path), remedy="the run did not end: run it again"
            )
    return ReportedRun(
        run=kinds["run"][-1],
        program=kinds["program"][-1],
        fragments=tuple(kinds.get("fragment", ())),
        candidates=tuple(kinds.get("candidate", ())),
        result=kinds["result"][-1],
    )
