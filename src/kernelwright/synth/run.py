"""Writes drawn programs into a file. The bytes do not depend on the number of processes.

Program `index` of a group is the first attempt of its own random stream that passes and is new. A
program is new if no earlier program of the file has the same fingerprint (`programs.fingerprint`).
So a program depends only on the programs before it. A longer file begins with all lines of the
shorter file.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path

from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record, code_digest, version_of
from kernelwright.synth.crew import AHEAD, Crew
from kernelwright.synth.draws import Drawer, DrawOutcome, LevelGroup, MakeSampler, ProgramSearch
from kernelwright.synth.file import HEADER, ProgramFile
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.space import space_record
from kernelwright.synth.tasks import TaskSampler
from kernelwright.synth.times import EagerClock

MOST_IN_BATCH = 32
SAY_EVERY_S = 2.0
DRAWING = ("core", "ops", "programs", "lint", "synth")
"""Packages whose code decides which programs are drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePlan:
    """The programs of a file: recipe, seed, and numbers of programs."""

    recipe: DrawRecipe
    seed: int
    groups: tuple[LevelGroup, ...]
    avoid: frozenset[str] = frozenset()
    """Fingerprints of programs that the file must not have."""

    @property
    def num(self) -> int:
        return sum(group.num for group in self.groups)

    def searches(self) -> Iterator[ProgramSearch]:
        """Yields the searches in the file's order: program 0 of each group, then program 1, ..."""
        for index in range(max((group.num for group in self.groups), default=0)):
            for number, group in enumerate(self.groups):
                if index < group.num:
                    yield ProgramSearch(number, index)

    def header(self) -> Record:
        avoided = sha256("\n".join(sorted(self.avoid)).encode()).hexdigest()[:16]
        return {
            "record": HEADER,
            "seed": self.seed,
            "groups": [
                {"name": group.name, "level": group.level, "operator": group.operator}
                for group in self.groups
            ],
            "recipe": self.recipe.to_json(),
            "digest": self.recipe.digest(),
            "avoided": {"programs": len(self.avoid), "digest": avoided},
            "code": code_digest(DRAWING),
            "versions": {name: version_of(name) for name in ("kernelwright", "torch", "numpy")},
            "space": space_record(self.recipe),
        }


@dataclass(slots=True)
class Tally:
    """The counts of a run."""

    before: int = 0
    """The number of programs that the file had before this run."""
    drawn: int = 0
    given_up: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Attempts that came to nothing, by reason."""

    def count(self, outcome: DrawOutcome) -> None:
        self.drawn += outcome.fingerprint is not None
        self.given_up += outcome.fingerprint is None
        self.refused.update(outcome.search.refused)


def synthesize(
    plan: FilePlan,
    out: Path,
    num_workers: int,
    *,
    make: MakeSampler = TaskSampler,
    clock: EagerClock | None = None,
    say: Say = lambda _: None,
) -> Tally:
    """Write the programs of a plan into `out`. If `out` has the first programs, write the others.

    Args:
        make: makes a sampler from a recipe; picklable if there are several workers.
        clock: adds reference times, which differ from run to run; None: no times.
        say: receives lines of progress.

    Returns:
        The counts of this run.

    Raises:
        UsageError: `out` belongs to another plan, or a program is not found in the attempts of its
            group.
        InfraError: a process died. The written programs are valid, and another run continues.
    """
    header = plan.header() | {"times": None if clock is None else clock.gpu}
    names = [group.name for group in plan.groups]
    places = ((names[search.group], search.index) for search in plan.searches())
    file = ProgramFile(out, header, places)
    tally, pace = Tally(before=file.num), _Pace(plan.num - file.num, say)
    # Small files get small batches, so that every process has work.
    size = max(1, min(MOST_IN_BATCH, (plan.num - file.num) // (AHEAD * num_workers)))
    batches = _batches(islice(plan.searches(), file.num, None), size)
    drawer = partial(Drawer, plan.recipe, plan.seed, plan.groups, make)
    with Crew(drawer, num_workers) as crew:
        novelty = _Novelty(plan.avoid, set(file.fingerprints), crew.draw)
        for batch in crew.draw_all(batches):
            for finished in novelty.settle(batch):
                tally.count(finished)
                _check_outcome(finished, plan.groups[finished.search.group])
            file.write(
                finished.line if clock is None else clock.timed(finished.line) for finished in batch
            )
            pace.made(len(batch))
    return tally


def _batches(searches: Iterator[ProgramSearch], size: int) -> Iterator[list[ProgramSearch]]:
    while batch := list(islice(searches, size)):
        yield batch


def _check_outcome(outcome: DrawOutcome, group: LevelGroup) -> None:
    if outcome.fingerprint is None and not group.may_lack:
        reasons = ", ".join(f"{n} {reason}" for reason, n in outcome.search.refused.items())
        raise UsageError(
            f"{group.name}: no program {outcome.search.index} in {group.most_attempts} attempts"
            f" ({reasons})",
            remedy="ask for fewer programs, or for wider sizes and bounds in the recipe",
        )


@dataclass(slots=True)
class _Novelty:
    """Replaces programs that are not new, in the file's order."""

    avoid: frozenset[str]
    seen: set[str]
    draw: Callable[[Sequence[ProgramSearch]], list[DrawOutcome]]

    def settle(self, batch: list[DrawOutcome]) -> list[DrawOutcome]:
        """Replaces programs of a batch, in place, until all programs are new; returns the batch.

        Drawn programs with the fingerprint None were given up, and stay as they are.
        """
        # All programs that are not new are drawn again together, which keeps all processes busy.
        # The result is that of one program at a time: a fingerprint that an earlier program has
        # taken stays taken, by that program or by a still earlier one.
        while True:
            taken: set[str] = set()
            again: dict[int, ProgramSearch] = {}
            for place, search in enumerate(batch):
                key = search.fingerprint
                if key is None:
                    continue
                if key in taken or key in self.seen or key in self.avoid:
                    reason = "avoided" if key in self.avoid else "duplicate"
                    again[place] = search.search.beyond(reason)
                taken.add(key)
            if not again:
                self.seen |= taken
                return batch
            for place, search in zip(again, self.draw(list(again.values())), strict=True):
                batch[place] = search


class _Pace:
    """Reports every `SAY_EVERY_S` seconds how many programs are drawn, and how fast."""

    def __init__(self, num: int, say: Say) -> None:
        self._num, self._say, self._made = num, say, 0
        self._began_s = self._said_s = time.monotonic()

    def made(self, more: int) -> None:
        self._made += more
        now_s = time.monotonic()
        if now_s - self._said_s >= SAY_EVERY_S or self._made == self._num:
            self._said_s = now_s
            rate = self._made / (now_s - self._began_s)
            self._say(f"{self._made} of {self._num} programs, {rate:.0f}/s")
