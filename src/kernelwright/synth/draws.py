"""Searches for the programs of a file. Each program has its own random stream of attempts.

The first attempt that passes the quality checks and is new becomes the program.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.programs.record import program_record
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.sample import Sampler

MakeSampler = Callable[[DrawRecipe], Sampler]


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelGroup:
    """Programs of one level that belong together in a file."""

    name: str
    level: int
    """The number of calls of each program."""
    num: int
    operator: str | None = None
    """The only operator that the programs may use; None: all operators of the recipe."""
    most_attempts: int = 10_000
    """The number of attempts after which the search for a program is given up."""
    may_lack: bool = False
    """Whether the group may lack a program whose search was given up. If False, the run ends."""

    def recipe(self, recipe: DrawRecipe) -> DrawRecipe:
        """The recipe that the group's programs are drawn by."""
        return recipe if self.operator is None else replace(recipe, operators=(self.operator,))


@dataclass(frozen=True, slots=True)
class ProgramSearch:
    """The state of the search for one program, with counts of all attempts so far."""

    group: int
    index: int
    attempt: int = 0
    """The number of the next attempt."""
    skeletons: int = 0
    drafts: int = 0
    proposals: int = 0
    accepted: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of attempts without a program."""

    def beyond(self, reason: str) -> "ProgramSearch":
        """The state of the search after the present attempt was refused for a reason."""
        refused = {**self.refused, reason: self.refused.get(reason, 0) + 1}
        return replace(self, attempt=self.attempt + 1, refused=refused)


@dataclass(frozen=True, slots=True)
class DrawOutcome:
    """The result of a search."""

    search: ProgramSearch
    """The state of the search at the attempt that ended it."""
    fingerprint: str | None
    """None: the program was given up."""
    line: str
    """The record, as JSON."""


class Drawer:
    """Continues searches. Each process has one drawer, which keeps a sampler for each operator.

    The first draw of a sampler is slow, because it counts skeletons. So samplers are kept.
    """

    def __init__(
        self, recipe: DrawRecipe, seed: int, groups: Sequence[LevelGroup], make: MakeSampler
    ) -> None:
        self.recipe, self.seed, self.groups, self.make = recipe, seed, groups, make
        self._samplers: dict[str | None, Sampler] = {}

    def draw(self, search: ProgramSearch) -> DrawOutcome:
        """Continue a search to the next attempt that passes, or until the search is given up.

        The caller checks whether the program is new, because only the caller knows the file.

        Raises:
            UsageError: the recipe has no program of this level, and the group may not lack
                programs.
        """
        group = self.groups[search.group]
        sampler = self._sampler(group)
        while search.attempt < group.most_attempts:
            try:
                sample = sampler.draw(group.level, self.seed, search.index, search.attempt)
            except UsageError:
                # No attempt can help: the recipe itself has no program. The search ends here.
                if not group.may_lack:
                    raise
                break
            search = replace(
                search,
                skeletons=search.skeletons + sample.skeletons,
                drafts=search.drafts + sample.drafts,
                proposals=search.proposals + sample.proposals,
                accepted=search.accepted + sample.accepted,
            )
            if sample.program is not None:
                fields = program_record(sample.program)
                drawn = _drawn(search, group) | {"uniform": sample.is_uniform}
                record = {"record": "program", "drawn": drawn, **fields}
                return DrawOutcome(search, fields["fingerprint"], _line(record))
            assert sample.refused is not None
            search = search.beyond(sample.refused)
        return DrawOutcome(
            search, None, _line({"record": "given_up", "drawn": _drawn(search, group)})
        )

    def _sampler(self, group: LevelGroup) -> Sampler:
        sampler = self._samplers.get(group.operator)
        if sampler is None:
            sampler = self._samplers[group.operator] = self.make(group.recipe(self.recipe))
        return sampler


def _drawn(search: ProgramSearch, group: LevelGroup) -> Record:
    """The fields that say how to draw the program again, and how many draws were needed."""
    return {
        "group": group.name,
        "index": search.index,
        "attempt": search.attempt,
        "skeletons": search.skeletons,
        "drafts": search.drafts,
        "proposals": search.proposals,
        "accepted": search.accepted,
        "refused": dict(sorted(search.refused.items())),
    }


def _line(record: Record) -> str:
    return json.dumps(record, allow_nan=False)
