"""The programs of a recipe's part: drawn, or read from a file, and kept clear of benchmarks."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.data.pairs.recipe import PairsRecipe, RecipePart
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import SETS, benchmark_programs
from kernelwright.synth.benchmarks import is_benchmark, task_fingerprint
from kernelwright.synth.draws import Drawer, DrawOutcome, LevelGroup, ProgramSearch
from kernelwright.synth.tasks import TaskSampler

PROJECT_LICENCE = "Apache-2.0"
MOST_ATTEMPTS = 2_000
"""The most attempts at one program."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """A program, and the place that it comes from."""

    program: Program
    canonical: str
    """The fingerprint of the program."""
    origin: str
    licence: str
    provenance: Record


class PartPrograms(Protocol):
    """The programs of one part, by their number in the part."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Origin | None:
        """The program of a number; None if `MOST_ATTEMPTS` draws gave none.

        Raises:
            UsageError: the text in the user's file is not a program.
        """


def programs_of(recipe: PairsRecipe, part: RecipePart) -> PartPrograms:
    """The programs of a part: from its file, or drawn.

    Raises:
        UsageError: there is no such file. A file without programs is noticed when it is read.
    """
    return FilePrograms(part) if part.file else DrawnPrograms(recipe, part)


class DrawnPrograms:
    """Programs that are drawn one by one. Each has a random stream of its own, so that any worker
    can draw any of them. The same program may come twice."""

    def __init__(self, recipe: PairsRecipe, part: RecipePart) -> None:
        self.recipe, self.part = recipe, part
        self.seed = derive(recipe.seed, "programs", part.name)
        group = LevelGroup(
            name=part.name,
            level=part.level,
            num=part.programs,
            most_attempts=MOST_ATTEMPTS,
            may_lack=True,
        )
        self._drawer = Drawer(recipe.drawn_by(part), self.seed, (group,), TaskSampler)

    def __len__(self) -> int:
        return self.part.programs

    def __getitem__(self, index: int) -> Origin | None:
        search = self._drawer.draw(ProgramSearch(0, index))
        if search.fingerprint is None:
            return None
        return self._origin(search, search.fingerprint)

    def _origin(self, outcome: DrawOutcome, canonical: str) -> Origin:
        line = json.loads(outcome.line)
        try:
            program = parse(line["text"])
        except UsageError as error:
            # The sampler wrote the text: a failure of ours, which costs this program alone.
            raise ValueError(f"a drawn program cannot be read: {error}") from error
        return Origin(
            program=program,
            canonical=canonical,
            origin="synth",
            licence=PROJECT_LICENCE,
            provenance={
                "seed": self.seed,
                "index": outcome.search.index,
                "attempt": outcome.search.attempt,
                "uniform": line["drawn"]["uniform"],
            },
        )


@dataclass(frozen=True, slots=True)
class _ProgramPlace:
    line: int
    begin: int
    """In bytes."""


class FilePrograms:
    """The programs of a JSONL file of `kernelwright synth` or `data collect`."""

    def __init__(self, part: RecipePart) -> None:
        self.part, self.path = part, Path(part.file)
        if not self.path.is_file():
            raise UsageError(
                "no such file", file=part.file, remedy="draw it: kernelwright synth --out FILE"
            )

    def __len__(self) -> int:
        return len(self._places)

    @cached_property
    def _head(self) -> Record:
        return next(record.read(self.path), {})

    @cached_property
    def _places(self) -> list[_ProgramPlace]:
        """The places of the wanted programs in the file. Workers read single programs by them."""
        wanted, places = self.part.levels, []
        for number, (begin, line) in enumerate(_lines(self.path), 1):
            values = self._values(line, number)
            if values.get("record") == "program" and (not wanted or values["level"] in wanted):
                places.append(_ProgramPlace(number, begin))
        if not places:
            raise UsageError("holds no program of these levels", file=str(self.path))
        return places[: self.part.programs or None]

    def _values(self, line: bytes, number: int) -> Record:
        """The record in a line.

        Raises:
            UsageError: the line is not a JSON object, or a program lacks a field.
        """
        file = str(self.path)
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UsageError(f"not JSON: {error}", file=file, line=number) from error
        if not isinstance(values, dict):
            raise UsageError("a record must be a JSON object", file=file, line=number)
        missing = {"text", "level"} - values.keys()
        if not values.keys() & {"provenance", "drawn"}:
            missing.add("provenance")
        if values.get("record") == "program" and missing:
            raise UsageError(
                f"a program without {', '.join(sorted(missing))}",
                file=file,
                line=number,
                remedy="give a file of `kernelwright synth` or `data collect`",
            )
        return values

    def __getitem__(self, index: int) -> Origin:
        place = self._places[index]
        with self.path.open("rb") as file:
            file.seek(place.begin)
            values = json.loads(file.readline())
        program = self._program(values["text"], place.line)
        collected = values.get("provenance")
        licence = self._head.get("licence") or "unknown"
        return Origin(
            program=program,
            canonical=fingerprint(program),
            origin=(self._head.get("target") or self.path.name) if collected else "synth",
            licence=licence if collected else PROJECT_LICENCE,
            provenance={"file": self.path.name} | (collected or {"drawn": values["drawn"]}),
        )

    def _program(self, text: str, line: int) -> Program:
        """Parse a program's text.

        Raises:
            UsageError: the text is not a program. Names the line of the file, and the line within
                the text.
        """
        try:
            return parse(text, "its text")
        except UsageError as error:
            cause = str(error).partition("\n")[0]
            raise UsageError(cause, file=str(self.path), line=line, remedy=error.remedy) from error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    place = 0
    with path.open("rb") as file:
        for line in file:
            yield place, line
            place += len(line)


@cache
def _held_out(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Fingerprints of a frozen set: of its programs at their sizes; and, of those with several
    calls, of the computation at any sizes."""
    lines = benchmark_programs(name)
    graphs = (task_fingerprint(parse(line["text"])) for line in lines if line["level"] > 1)
    return (
        frozenset(line["fingerprint"] for line in lines),
        frozenset(name for name, num_calls in graphs if num_calls > 1),
    )


def contaminates(program: Program, canonical: str, avoid: tuple[str, ...]) -> str:
    """The name of the benchmark that has this program as a task; empty if none has.

    Programs of several calls count at any sizes. A program of one call counts only at the sizes of
    our frozen sets: single operators are vocabulary (`synth.benchmarks.is_benchmark`).

    Args:
        canonical: the fingerprint of the program.
        avoid: files of fingerprints, beside the benchmarks that are shipped.

    Raises:
        UsageError: such a file cannot be read.
    """
    graph, num_calls = task_fingerprint(program)
    for name in SETS:
        programs, graphs = _held_out(name)
        if canonical in programs or (num_calls > 1 and graph in graphs):
            return name
    return "benchmark" if is_benchmark(program, avoid) else ""
