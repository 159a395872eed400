"""The part of a recipe's space that the programs of its files reach."""

import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from kernelwright.core.kinds.data import SynthLine
from kernelwright.core.record import Record
from kernelwright.report.programs.census import Census


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """How much was seen of all that is possible."""

    what: str
    seen: int
    possible: int
    missing: tuple[str, ...]


@dataclass(slots=True)
class RecipeSpace:
    """The space that the recipes of some files allow."""

    families: dict[str, str] = field(default_factory=dict)
    """The family of every operator."""
    values: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """(operator, attribute) -> its values, as JSON."""
    defaults: dict[tuple[str, str], str] = field(default_factory=dict)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    """(a, b) where some result of a is of a kind that b reads from calls."""

    def add(self, space: Record) -> None:
        """The `space` of a file's header."""
        self.families |= space["operators"]
        for op, attributes in space["attributes"].items():
            for name, domain in attributes.items():
                values = self.values.setdefault((op, name), set())
                values.update(map(json.dumps, domain["values"]))
                if "default" in domain:
                    self.defaults[op, name] = json.dumps(domain["default"])
        reads = {op: set(kinds) for op, kinds in space["reads"].items()}
        self.pairs |= {
            (maker, reader)
            for maker, kinds in space["makes"].items()
            for reader, read in reads.items()
            if not read.isdisjoint(kinds)
        }

    def coverage(self, census: Census) -> list[CoverageShare]:
        """The shares of operators, attribute values and ordered pairs that were seen."""
        return [
            _share("operators", self.families, census.operators),
            _share(
                "attribute values",
                [(*key, value) for key, values in self.values.items() for value in values],
                self._values_seen(census),
            ),
            _share("producer and consumer", self.pairs, census.pairs),
        ]

    def _values_seen(self, census: Census) -> set[tuple[str, str, str]]:
        """The attribute values that occurred. A call that leaves an attribute out has its default,
        which the counts do not show."""
        counts: dict[tuple[str, str], int] = {}
        for (op, name, _), count in census.attributes.items():
            counts[op, name] = counts.get((op, name), 0) + count
        left_out = {
            (*key, default)
            for key, default in self.defaults.items()
            if census.operators[key[0]] > counts.get(key, 0)
        }
        return left_out | census.attributes.keys()


def space_of(headers: Iterable[SynthLine]) -> RecipeSpace | None:
    """The joint space of some files; None if their headers name no space."""
    space = RecipeSpace()
    for header in headers:
        space.add(header["space"])
    return space if space.families else None


def _share(what: str, possible: Iterable[Hashable], seen: Iterable[Hashable]) -> CoverageShare:
    wanted, met = set(possible), set(seen)
    names = sorted(" ".join(key) if isinstance(key, tuple) else str(key) for key in wanted - met)
    return CoverageShare(what, len(wanted & met), len(wanted), tuple(names))
