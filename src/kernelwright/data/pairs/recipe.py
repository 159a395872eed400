"""The parts of a data set: a recipe in TOML (docs/data.md), checked and recorded."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from kernelwright.core import strict
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.data.pairs.answers import SOURCES, TEACHER
from kernelwright.synth.recipe import DrawRecipe as SynthRecipe

SEE = "docs/data.md"
CALLS_A_SHARD = 320
MOST_IN_SHARD = 160
"""Programs of a shard: fewer of larger ones, so that shards take about as long as each other."""
MOST_ASKED_IN_SHARD = 8
"""The same, where others than the teacher answer, which takes longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipePart:
    """Programs from one place, answered by one source."""

    name: str
    source: str = TEACHER
    """Who answers: a name in `answers.SOURCES`."""
    level: int = 0
    """Programs of so many calls are drawn; 0 where they come from a file."""
    programs: int = 0
    """The number of programs; 0: all of the file."""
    draw: str = ""
    """Name of the table under [draw] by which they are drawn; balanced weights where empty."""
    file: str = ""
    """JSONL of `kernelwright synth` or `data collect`, in place of drawing."""
    levels: tuple[int, ...] = ()
    """The levels of the file's programs that are taken; empty: all."""
    answers: int = 1
    """The most answers to each program. 0: only the `best` answers of the teacher's options."""
    precision: str = "strict"
    mode: str = "pure"
    share: float = 0.0
    """Among the pairs of all parts that have one: what is too much is left out. 0: all are kept."""
    licence: str = ""
    """The licence of the pairs. Empty: the project's licence for drawn programs, and the file's own
    for collected programs."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the source."""

    def __post_init__(self) -> None:
        where = f"part {self.name!r}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", self.name):
            _refuse(f"{where}: names are of a-z, 0-9 and -", "rename it")
        if self.source not in SOURCES:
            _refuse(f"{where}: no source {self.source!r}", f"choose from {', '.join(SOURCES)}")
        if bool(self.level) == bool(self.file):
            _refuse(f"{where}: programs are drawn or read", "give either a level or a file")
        if self.level and (self.level < 0 or self.programs < 1 or self.levels):
            _refuse(f"{where}: what is drawn has a level, and a number of programs", f"see {SEE}")
        if self.file and self.draw:
            _refuse(f"{where}: a file's programs are not drawn", "leave `draw` out")
        if self.answers < 0 or self.share < 0:
            _refuse(f"{where}: answers and share are at least 0", f"see {SEE}")
        if not self.answers and not (self.source == TEACHER and self.options.get("best")):
            _refuse(f"{where}: no answers are wanted", "set `answers`, or `options.best`")

    @property
    def programs_a_shard(self) -> int:
        """Programs of a shard. It does not depend on the number of workers, so that a run can be
        continued with another number."""
        most = MOST_IN_SHARD if self.source == TEACHER else MOST_ASKED_IN_SHARD
        return max(1, min(most, CALLS_A_SHARD // max(self.level, 2)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """Which pairs are judged, and how."""

    share: float = 0.0
    """The share of the teacher's pairs that is judged, drawn by chance; 1: every pair. The other
    pairs say "unverified". All pairs of other sources are judged."""
    device: str = "auto"
    grade: str = "recycled"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            _refuse("verify.share is from 0 to 1", f"see {SEE}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PairsRecipe:
    """Plain data; the same recipe, code and versions give the same pairs."""

    part: tuple[RecipePart, ...]
    title: str = ""
    """The title of the data card."""
    seed: int = 0
    validation: float = 0.02
    """Share of programs, by chance, that nothing is to be trained on."""
    device: str = "sm_90"
    """The requests'."""
    avoid: tuple[str, ...] = ()
    """Files of `kernelwright data fingerprints`, beside the benchmarks that are shipped."""
    draw: Mapping[str, SynthRecipe] = field(default_factory=dict)
    """Name -> how programs are drawn, as recipes of `kernelwright synth` have it."""
    verify: Verification = Verification()

    def __post_init__(self) -> None:
        names = [part.name for part in self.part]
        if not names or len(set(names)) < len(names):
            _refuse("a recipe has parts, each with a name of its own", "write [[part]] tables")
        for part in self.part:
            if part.draw and part.draw not in self.draw:
                _refuse(f"part {part.name!r}: no table [draw.{part.draw}]", "write one")
        if not 0 <= self.validation < 1:
            _refuse("validation is from 0 to below 1", f"see {SEE}")

    def drawn_by(self, part: RecipePart) -> SynthRecipe:
        return self.draw[part.draw] if part.draw else SynthRecipe.of({"weights": "balanced"})

    def to_json(self) -> Record:
        return asdict(self)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a recipe from a TOML file. Its file names are relative to the recipe's folder.

        Raises:
            UsageError: it cannot be read, or says what a recipe does not know.
        """
        return strict.load(path, cls.of)._beside(path.parent)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From plain data, as TOML or JSON has it.

        Raises:
            UsageError: a field it does not know, or a value of the wrong type.
        """
        draw = values.get("draw")
        if isinstance(draw, Mapping):
            draws = {name: SynthRecipe.of(draw[name], f"draw.{name}") for name in draw}
            values = {**values, "draw": draws}
        return strict.read(cls, values)

    def _beside(self, folder: Path) -> Self:
        """The recipe with file names that are resolved from the recipe's own folder."""
        return replace(
            self,
            part=tuple(
                replace(entry, file=str(folder / entry.file)) if entry.file else entry
                for entry in self.part
            ),
            avoid=tuple(str(folder / file) for file in self.avoid),
        )


def _refuse(message: str, remedy: str) -> None:
    raise UsageError(message, remedy=remedy)
