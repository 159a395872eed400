"""The programs a kernel writer is examined on: synthetic-v1, or those of a JSONL file.

Any file whose lines hold programs will do: what `synth` and `data collect` write ("text"), or pairs
for training ("prompt"), of which one a program is taken. Programs of several files, or of several
splits of a file, are suites of their own and compared with each other.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.policy.prompt import requested_text
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import NAME, synthetic_v1

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
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def operators(self) -> list[str]:
        """Distinct ones, in program order."""
        return list(dict.fromkeys(call.op for call in self.program.calls))


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which programs of a file are taken."""

    levels: Collection[str] = ()
    """None of them: all."""
    splits: Sequence[str] = ()
    """Of pairs for training, a suite each; none: whatever their split, in one suite."""
    limit: int | None = None
    """Of each suite and level, at most: a draw that is the same for every run, and that a larger
    limit only adds to."""


def problems_of(files: Sequence[Path], wanted: Selection) -> list[Problem]:
    """The programs wanted of some files; of synthetic-v1 where there are none.

    Raises:
        UsageError: a file cannot be read or holds no program that is wanted, or two have one name.
    """
    if len({path.stem for path in files}) < len(files):
        raise UsageError("two files of one name would be one suite", remedy="rename one of them")
    found = []
    for file, suite, split in _suites(files, wanted.splits):
        lines = synthetic_v1() if file is None else record.read(file)
        named = None if file is None else str(file)
        own = list(_of_suite(suite, split, lines, named, wanted))
        if not own:
            raise UsageError(
                f"{suite} has no programs of these levels",
                file=named,
                remedy="ask for other levels or splits",
            )
        found += own
    return found


def _suites(files: Sequence[Path], splits: Sequence[str]) -> Iterator[tuple[Path | None, str, str]]:
    """(file, suite's name, split of its lines); every line is of the split ""."""
    if not files:
        yield None, NAME, ""
    for path in files:
        if not path.is_file():
            raise UsageError("no such file", file=str(path), remedy="give a JSONL file of programs")
        for split in splits or [""]:
            yield path, f"{path.stem}-{split}" if split else path.stem, split


def _of_suite(
    suite: str, split: str, lines: Iterable[Record], file: str | None, wanted: Selection
) -> Iterator[Problem]:
    """Distinct programs in the order of the lines; parsed only where they are taken."""
    by_level: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    seen: set[str] = set()
    numbers: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        text = _text(line)
        if text is None or (split and line.get("split") != split) or text in seen:
            continue
        seen.add(text)
        level = level_of(line)
        numbers[level] += 1
        if not wanted.levels or level in wanted.levels:
            by_level[level].append((number, numbers[level], text))
    for level, programs in by_level.items():
        drawn = sorted(programs, key=lambda each: derive(0, "problem", each[2]))
        for number, identity, text in sorted(drawn[: wanted.limit]):
            try:
                program = parse(text)
            except UsageError as error:
                raise UsageError(
                    f"not a program: {error.message}", file=file, line=number
                ) from error
            yield Problem(suite=suite, level=level, id=identity, text=text, program=program)


def _text(line: Record) -> str | None:
    """The program that a line holds; None where it holds none."""
    if isinstance(text := line.get("text"), str):
        return text
    prompt = line.get("prompt")
    return requested_text(prompt[-1]["content"]) if isinstance(prompt, list) and prompt else None


def level_of(line: Record) -> str:
    """A program's level as its record says it: what it was drawn as, or its number of calls."""
    group = line.get("drawn", {}).get("group", "level")
    return f"L{line['level']}" if group.startswith("level") else OPERATORS
