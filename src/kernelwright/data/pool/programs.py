"""The programs of a pool: read from files, kept clear of benchmarks."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.data.pairs.programs import contaminates
from kernelwright.data.pool.recipe import PoolPrograms
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse, to_text


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolTask:
    """A program that answers are written to."""

    name: str
    """LEVEL/NUMBER."""
    level: int
    program: Program
    text: str
    fingerprint: str


def tasks_of(settings: PoolPrograms) -> Iterator[PoolTask]:
    """Each program once, in the files' order.

    Raises:
        UsageError: a file cannot be read, or holds no program.
    """
    seen: set[str] = set()
    numbers: Counter[int] = Counter()
    for file in settings.files:
        for line in record.read(Path(file)):
            if line.get("record") != "program":
                continue
            program = parse(line["text"], file)
            # Fingerprints, not texts: the same program may be written with other names.
            canonical = fingerprint(program)
            if canonical in seen or contaminates(program, canonical, settings.avoid):
                continue
            seen.add(canonical)
            level = len(program.calls)
            numbers[level] += 1
            yield PoolTask(
                name=f"L{level}/{numbers[level]}",
                level=level,
                program=program,
                text=to_text(program),
                fingerprint=canonical,
            )
    if not seen:
        raise UsageError("programs.files hold no program", remedy="give files of `synth`")
