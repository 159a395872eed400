"""The programs of a run: training programs and held-out programs. They are read from files. A run
can also draw programs into a file first."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.core.seed import derive
from kernelwright.data.pairs.pair import TRAIN, VALIDATION, split_of
from kernelwright.data.pairs.programs import contaminates
from kernelwright.data.pool.answers import PoolProgram
from kernelwright.programs.program import Program
from kernelwright.programs.text import parse
from kernelwright.synth.benchmark import benchmark_fingerprints
from kernelwright.synth.draws import LevelGroup
from kernelwright.synth.file import SETTLED
from kernelwright.synth.recipe import DrawRecipe as Drawing
from kernelwright.synth.run import FilePlan, synthesize
from kernelwright.train.rl.recipe import RlRecipe

DRAWN = "programs.jsonl"
"""The file of drawn programs in the run's folder."""
PARSED = 4096
"""The most parsed programs in the cache."""


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """A program as text, as read from a file."""

    level: int
    """The number of calls."""
    text: str
    fingerprint: str


@dataclass(slots=True)
class TrainingPrograms:
    """The programs of a run, by level."""

    train: dict[int, list[ProgramSource]] = field(default_factory=lambda: defaultdict(list))
    """By level."""
    held_out: dict[int, list[ProgramSource]] = field(default_factory=lambda: defaultdict(list))

    @property
    def sizes(self) -> dict[int, int]:
        return {level: len(self.train[level]) for level in sorted(self.train)}


def programs_of(
    recipe: RlRecipe, folder: Path, workers: int, say: Say, stored: Iterable[PoolProgram] = ()
) -> TrainingPrograms:
    """Read all programs, and divide them into training programs and held-out programs. A program
    that occurs several times is read once.

    A training program may be a task of a benchmark. `opened` finds such programs when they are
    used.

    Args:
        folder: the folder of the run, where programs are drawn into a file.
        workers: the number of processes that draw.
        stored: programs of a pool: the training programs of the run. All programs of the recipe are
            then held out.

    Raises:
        UsageError: a file cannot be read or has no programs, or no program is held out or left for
            training.
    """
    programs = TrainingPrograms()
    files = [Path(name) for name in recipe.programs.files]
    if recipe.programs.draw:
        say("drawing programs")
        files.append(_drawn(recipe, folder / DRAWN, workers, say))
    own_files = [Path(name) for name in recipe.validation.files]
    pooled = [
        (ProgramSource(program.level, program.text, program.fingerprint), None)
        for program in stored
    ]
    if pooled:
        own_files, files = own_files + files, []
    validation = {source.fingerprint: source for source, _ in _read(own_files)}
    # Held-out programs count as seen: other files may have them too, and they must not be learnt.
    seen = set(validation)
    for source, split in chain(pooled, _read(files)):
        if source.fingerprint in seen:
            continue
        seen.add(source.fingerprint)
        if not own_files and split is None:
            split = split_of(source.fingerprint, recipe.validation.share, recipe.seed)
        # Programs that a data set holds back are never learnt from, even if other files validate.
        if split != VALIDATION:
            programs.train[source.level].append(source)
        elif not own_files:
            validation[source.fingerprint] = source
    for source in _chosen(validation.values(), recipe):
        programs.held_out[source.level].append(source)
    if not programs.train or not programs.held_out:
        what = "to learn from" if programs.held_out else "held out"
        remedy = "give more files of programs, validation.files, or a larger validation.share"
        raise UsageError(f"no programs are {what}", remedy=remedy)
    return programs


def _chosen(sources: Iterable[ProgramSource], recipe: RlRecipe) -> Iterator[ProgramSource]:
    """At most `validation.programs` of each level, without those of benchmarks.

    The choice depends on the programs and the seed alone, not on the order of files.
    """
    by_level: dict[int, list[ProgramSource]] = defaultdict(list)
    for source in sorted(sources, key=lambda s: derive(recipe.seed, s.fingerprint)):
        by_level[source.level].append(source)
    for _, some in sorted(by_level.items()):
        kept = 0
        for source in some:
            if kept == recipe.validation.programs:
                break
            if opened(source, recipe.programs.avoid) is not None:
                kept += 1
                yield source


@lru_cache(PARSED)
def opened(source: ProgramSource, avoid: tuple[str, ...]) -> Program | None:
    """The parsed program; None if the program is a task of a benchmark, which must not be used.

    Args:
        avoid: files of fingerprints of further tasks, in addition to the shipped benchmarks.

    Raises:
        UsageError: the text is no program.
    """
    program = parse(source.text)
    return None if contaminates(program, source.fingerprint, avoid) else program


def _drawn(recipe: RlRecipe, out: Path, workers: int, say: Say) -> Path:
    """Draw the recipe's programs into `out`, or complete the file of an interrupted run; return
    `out`."""
    groups = tuple(
        LevelGroup(name=f"level {level}", level=int(level), num=number, may_lack=True)
        for level, number in recipe.programs.draw.items()
    )
    plan = FilePlan(
        recipe=Drawing.of({"weights": "balanced"}),
        seed=derive(recipe.seed, "programs"),
        groups=groups,
        avoid=benchmark_fingerprints(),
    )
    if not _is_whole(out, plan.num):
        synthesize(plan, out, workers, say=say)
    return out


def _is_whole(file: Path, number: int) -> bool:
    """Whether a file has all programs. A resumed run keeps the programs that it began with, even if
    another version of kernelwright drew them."""
    return sum(line.get("record") in SETTLED for line in record.resumed(file)) == number


def _read(files: Sequence[Path]) -> Iterator[tuple[ProgramSource, str | None]]:
    """Programs, each with its side in the data set: training or validation. The side is None for a
    file that names no side.

    Raises:
        UsageError: a file is missing or broken, or has no program.
    """
    for path in [part for file in files for part in _parts(file)]:
        has_programs = False
        for line in record.read(path):
            if (source := _source(line)) is not None:
                has_programs = True
                split = line.get("split")
                yield source, split if split in (TRAIN, VALIDATION) else None
        if not has_programs:
            raise UsageError("holds no program with a fingerprint", file=str(path))


def _parts(path: Path) -> list[Path]:
    """The files of a path. A folder of `data build` has a file for training and a file for
    validation."""
    sides = (TRAIN, VALIDATION)
    return [path / f"{side}.jsonl" for side in sides] if path.is_dir() else [path]


def _source(line: Record) -> ProgramSource | None:
    """The source of a line that `synth` or `data collect` wrote, or of a pair."""
    text, name = line.get("text"), line.get("fingerprint")
    if "program" in line and "canonical" in line:
        text, name = line["program"], line["canonical"]
    if not isinstance(text, str) or not isinstance(name, str):
        return None
    return ProgramSource(line["level"], text, name)
