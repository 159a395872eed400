"""The curriculum: draws the programs of each step, and decides when a stage ends.

The stage says how many programs of each level a step has (DRTriton, section 4.4: level 1, then 2,
then 5). Programs whose last visits taught nothing are drawn less. All randomness comes from seeds
that the caller gives, and the state is plain data, so a resumed run draws the same programs.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from kernelwright.core.errors import UsageError
from kernelwright.train.rl import recipe

TRIES = 64
"""The most attempts to draw a program by weight. After these attempts, any program that is not
barred is taken."""


class Name(NamedTuple):
    """The name of a training program: its level, and its number within the level."""

    level: int
    number: int


@dataclass(frozen=True, slots=True)
class Promotion:
    """The passage from a stage to the next."""

    before: int
    after: int
    """`before` and `after` are numbers of stages; the first stage has number 0."""
    solved: float | None
    """Share of solved programs; None if the stage ended because its steps or minutes were over."""


@dataclass(kw_only=True, slots=True)
class CurriculumState:
    """The state that a resumed run needs."""

    stage: int = 0
    steps_in_stage: int = 0
    seconds_in_stage: float = 0.0
    recent: list[float] = field(default_factory=list)
    """For each of the last programs of the stage's highest level, the share of right answers."""
    draws: Counter[Name] = field(default_factory=Counter)
    """Program -> number of draws."""
    visits: dict[Name, list[float]] = field(default_factory=dict)
    """Program -> the share of right answers at each of its last visits."""
    barred: set[Name] = field(default_factory=set)
    """Programs that are never drawn again."""

    def to_json(self) -> dict[str, Any]:
        """The state as plain lists and numbers. Keys of JSON objects must be texts, so tables
        become lists."""
        return {
            "stage": self.stage,
            "steps_in_stage": self.steps_in_stage,
            "seconds_in_stage": self.seconds_in_stage,
            "recent": self.recent,
            "draws": [[*name, number] for name, number in self.draws.items()],
            "visits": [[*name, shares] for name, shares in self.visits.items()],
            "barred": sorted(self.barred),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "CurriculumState":
        return cls(
            stage=values["stage"],
            steps_in_stage=values["steps_in_stage"],
            seconds_in_stage=values["seconds_in_stage"],
            recent=values["recent"],
            draws=Counter({Name(level, index): n for level, index, n in values["draws"]}),
            visits={Name(level, number): shares for level, number, shares in values["visits"]},
            barred={Name(*value) for value in values["barred"]},
        )


class Curriculum:
    """Draws programs by the levels of the present stage, and passes to the next stage."""

    def __init__(
        self,
        settings: recipe.CurriculumSettings,
        sizes: Mapping[int, int],
        *,
        right_teaches: bool = False,
        is_even: bool = False,
    ) -> None:
        """
        Args:
            sizes: level -> number of training programs.
            right_teaches: whether a program teaches speed if all its answers are right.
            is_even: whether a program is drawn again only after all others of its level, as in
                epochs.

        Raises:
            UsageError: a stage has a level without programs, or no level at all.
        """
        self.settings, self.sizes = settings, sizes
        self._right_teaches, self._is_even = right_teaches, is_even
        even = recipe.CurriculumStage(levels={str(level): 1.0 for level in sizes})
        stages = [_levels(stage, sizes) for stage in settings.stages or (even,)]
        self._limits = list(settings.stages or (even,))
        # What a curriculum is compared with: the last stage's levels, without end.
        if settings.mix is recipe.Mix.FIXED:
            stages, self._limits = stages[-1:], [even]
        self.stages = stages
        self.state = CurriculumState()

    @property
    def mix(self) -> Mapping[int, float]:
        """Level -> share of a step's programs."""
        return self.stages[self.state.stage]

    def draw(self, number: int, seed: int) -> list[Name]:
        """The programs of a step, `number` of them, with levels in the stage's proportions.

        No program occurs twice while others of its level are left.

        Raises:
            UsageError: all programs of a level are barred.
        """
        rng, names = random.Random(seed), []
        for level, count in _apportioned(self.mix, number, rng).items():
            taken: set[Name] = set()
            for _ in range(count):
                name = self.one(level, rng, taken)
                taken.add(name)
                names.append(name)
        return names

    def one(self, level: int, rng: random.Random, taken: set[Name]) -> Name:
        """Draw a program of a level and count the draw.

        Args:
            taken: programs to leave out. They are drawn again only if no other is left.

        Raises:
            UsageError: all programs of the level are barred.
        """
        name = self._chosen(level, rng, taken)
        self.state.draws[name] += 1
        return name

    def _chosen(self, level: int, rng: random.Random, taken: set[Name]) -> Name:
        """Choose a program by `weight`. With `is_even`, choose a program with the fewest draws."""
        # A level may have tens of thousands of programs, too many to weigh all for each draw. So a
        # draw is accepted by the program's weight. Tries are bounded: all may be taken or barred.
        for _ in range(0 if self._is_even else TRIES):
            name = Name(level, rng.randrange(self.sizes[level]))
            if name not in taken and rng.random() < self.weight(name):
                return name
        allowed = [
            name
            for name in (Name(level, number) for number in range(self.sizes[level]))
            if name not in self.state.barred
        ]
        if not allowed:
            remedy = "see what the records say of infra failures, and give other programs"
            raise UsageError(f"no program of level {level} can be learnt from", remedy=remedy)
        left = [name for name in allowed if name not in taken] or allowed
        if self._is_even:
            fewest = min(self.state.draws[name] for name in left)
            left = [name for name in left if self.state.draws[name] == fewest]
        return rng.choice(left)

    def weight(self, name: Name) -> float:
        """The probability that a draw of this program is accepted, 0 to 1.

        The weight is `dull_weight` if the last visits taught nothing: no answer was right, or all
        answers were right (unless `right_teaches`). A barred program has 0, all others have 1.
        """
        if name in self.state.barred:
            return 0.0
        shares = self.state.visits.get(name, [])
        kinds = (0.0,) if self._right_teaches else (0.0, 1.0)
        is_dull = len(shares) >= self.settings.visits and any(
            all(share == kind for share in shares) for kind in kinds
        )
        return min(1.0, self.settings.dull_weight) if is_dull else 1.0

    def visited(self, name: Name, solved: float) -> None:
        """Note the result of a visit.

        Args:
            solved: share of right answers to the program, 0 to 1.
        """
        shares = [*self.state.visits.get(name, []), solved]
        self.state.visits[name] = shares[-self.settings.visits :]
        # Promotion asks about the stage's highest level alone.
        if name.level == max(self.mix):
            self.state.recent = [*self.state.recent, solved][-self.settings.promote_after :]

    def bar(self, name: Name) -> None:
        """Never draw this program again."""
        self.state.barred.add(name)

    def stepped(self, seconds: float) -> Promotion | None:
        """Count a finished step. Pass to the next stage if the present stage is solved, or its
        steps or minutes are over.

        Args:
            seconds: the duration of the step.

        Returns:
            The promotion; None if the stage goes on or is the last.
        """
        state, limits = self.state, self._limits[self.state.stage]
        state.steps_in_stage += 1
        state.seconds_in_stage += seconds
        # A share of few programs is noise, so nothing is decided before the window is full.
        if len(state.recent) >= self.settings.promote_after:
            share = fmean(state.recent)
            if share >= self.settings.promote_at:
                return self._promoted(share)
        has_steps = limits.max_steps is None or state.steps_in_stage < limits.max_steps
        has_time = limits.max_minutes is None or state.seconds_in_stage < 60 * limits.max_minutes
        return None if has_steps and has_time else self._promoted(None)

    def validated(self, solved: Mapping[int, float]) -> Promotion | None:
        """Pass to the next stage if enough held-out programs of the highest level are solved.

        Args:
            solved: level -> share of held-out programs solved greedily.
        """
        share = solved.get(max(self.mix))
        if share is None or share < self.settings.promote_at:
            return None
        return self._promoted(share)

    def _promoted(self, share: float | None) -> Promotion | None:
        if self.state.stage + 1 == len(self.stages):
            return None
        # The next stage begins with an empty window: results of this one would end it at once.
        self.state.stage += 1
        self.state.steps_in_stage = 0
        self.state.seconds_in_stage = 0.0
        self.state.recent = []
        return Promotion(self.state.stage - 1, self.state.stage, share)


def _levels(stage: recipe.CurriculumStage, sizes: Mapping[int, int]) -> dict[int, float]:
    """The levels of a stage, each with its share of a step's programs; shares sum to 1.

    Raises:
        UsageError: a level without programs, a weight below 0, or no level at all.
    """
    wanted = {name: weight for name, weight in stage.levels.items() if weight}
    known = {str(level) for level, size in sizes.items() if size}
    if not wanted or min(wanted.values()) < 0 or not wanted.keys() <= known:
        raise UsageError(
            f"curriculum.stages: levels {dict(stage.levels)}, but programs are of levels "
            f"{', '.join(sorted(known, key=int))}",
            remedy="name levels that programs are of, with weights above 0",
        )
    total = sum(wanted.values())
    return {int(name): wanted[name] / total for name in sorted(wanted, key=int)}


def _apportioned(mix: Mapping[int, float], number: int, rng: random.Random) -> Counter[int]:
    """The number of programs of each level, `number` in total. Each level gets its share, rounded
    down; the rest is drawn by chance.

    The chance of a level is the fraction that rounding removed, so that a rare level is not left
    out of every step.
    """
    counts = Counter({level: int(share * number) for level, share in mix.items()})
    rests = [share * number - counts[level] for level, share in mix.items()]
    levels: Sequence[int] = list(mix)
    while (left := number - counts.total()) > 0:
        weights = rests if sum(rests) > 0 else list(mix.values())
        counts.update(rng.choices(levels, weights, k=left))
    return counts
