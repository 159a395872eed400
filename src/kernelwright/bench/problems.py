"""The programs that a kernel writer is examined on: frozen sets or JSONL files, each a suite.

A file's lines hold programs: those of `synth` and `data collect` in "text", pairs for training in
"program". Of several lines with the same program one is taken.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.core.text import digest
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import V1, benchmark_programs

OPERATORS = "operators"
"""The level of programs that were drawn for one operator each; that of others is L and a number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A program to write kernels for."""

    suite: str
    level: str
    """ "L5", or `OPERATORS`."""
    id: int
    """Number among its suite's and level's, from 1."""
    text: str
    program: Program = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        return f"{self.suite}/{self.level}/{self.id}"

    @property
    def digest(self) -> str:
        return digest(self.text)

    @property
    def operators(self) -> list[str]:
        """Distinct ones, in program order."""
        return list(dict.fromkeys(call.op for call in self.program.calls))


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemSelection:
    """Which programs of a file are taken."""

    levels: Collection[str] = ()
    """None of them: all."""
    limit: int | None = None
    """The most problems of each suite and level: a draw that is the same for every run, and that a
    larger limit only adds to."""


def problems_of(
    files: Sequence[Path], wanted: ProblemSelection, sets: Sequence[str] = (V1,)
) -> list[Problem]:
    """The wanted programs of some files, or without files of frozen sets.

    Args:
        sets: of `synth.benchmark.SETS`.

    Raises:
        UsageError: a file cannot be read or holds no program that is wanted, or two have one name.
    """
    if len({path.stem for path in files}) < len(files):
        raise UsageError("two files of one name would be one suite", remedy="rename one of them")
    if not files:
        chosen = [_of_suite(name, benchmark_programs(name), None, wanted) for name in sets]
    else:
        chosen = [_of_suite(path.stem, record.read(path), str(path), wanted) for path in files]
    return [problem for problems in chosen for problem in problems]


def _of_suite(
    suite: str, lines: Iterable[Record], file: str | None, wanted: ProblemSelection
) -> list[Problem]:
    """The wanted programs of a suite, distinct, in the order of the lines."""
    by_level: dict[str, dict[str, _ProblemPlace]] = defaultdict(dict)
    for line, values in enumerate(lines, 1):
        if (text := _text(values)) is not None:
            level = by_level[level_of(values)]
            level.setdefault(text, _ProblemPlace(len(level) + 1, line))
    problems = []
    for name, level in by_level.items():
        if not wanted.levels or name in wanted.levels:
            # In an order that depends on the text alone: a larger limit only adds programs. Parsing
            # comes after, since a file may have many more programs than are wanted.
            drawn = sorted(level, key=lambda text: derive(0, "problem", text))[: wanted.limit]
            for text in sorted(drawn, key=level.__getitem__):
                id, line = level[text]
                program = _parsed(text, file, line)
                problems.append(Problem(suite=suite, level=name, id=id, text=text, program=program))
    if not problems:
        levels = f" of level {', '.join(wanted.levels)}" if wanted.levels else ""
        raise UsageError(f"{suite} has no programs{levels}", file=file)
    return problems


class _ProblemPlace(NamedTuple):
    id: int
    line: int


def _parsed(text: str, file: str | None, line: int) -> Program:
    try:
        return parse(text)
    except UsageError as error:
        raise UsageError(f"not a program: {error.message}", file=file, line=line) from error


def _text(line: Record) -> str | None:
    """The program that a line holds; None where it holds none."""
    text = line.get("text", line.get("program"))
    return text if isinstance(text, str) else None


def level_of(line: Record) -> str:
    """The level of a program's record: `OPERATORS` if it was drawn for one operator, else "L" and
    its number of calls."""
    group = line.get("drawn", {}).get("group", "level")
    return f"L{line['level']}" if group.startswith("level") else OPERATORS
