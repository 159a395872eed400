"""One optimize run, as its records tell it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.searching import (
    CandidateLine,
    FragmentLine,
    ResultLine,
    SearchedProgramLine,
    SearchRunLine,
)
from kernelwright.core.record import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedRun:
    """The records of one run of `optimize`."""

    run: SearchRunLine
    program: SearchedProgramLine
    fragments: tuple[FragmentLine, ...]
    candidates: tuple[CandidateLine, ...]
    result: ResultLine

    def candidates_of(self, fragment: int) -> list[CandidateLine]:
        return [c for c in self.candidates if c["fragment"] == fragment]


def read_run(path: Path) -> ReportedRun:
    """The last run in a records file. A folder that was used twice holds two runs.

    Raises:
        UsageError: a line is no record, or the run has no program or no result.
    """
    lines: list[Record] = []
    for line in record.read(path, whole=True):
        if line.get("record") == "run":
            lines = []
        lines.append(line)
    return ReportedRun(
        run=_last(lines, SearchRunLine, path),
        program=_last(lines, SearchedProgramLine, path),
        fragments=tuple(record.of_kind(lines, FragmentLine)),
        candidates=tuple(record.of_kind(lines, CandidateLine)),
        result=_last(lines, ResultLine, path),
    )


def _last(lines: Iterable[Record], kind: type[record.Kind], path: Path) -> record.Kind:
    lines_of_kind = list(record.of_kind(lines, kind))
    if not lines_of_kind:
        word = record.word_of(kind)
        remedy = "the run did not end: run it again"
        raise UsageError(f"no {word!r} record", file=str(path), remedy=remedy)
    return lines_of_kind[-1]
