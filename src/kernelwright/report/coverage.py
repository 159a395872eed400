"""What of a recipe's space the programs of its files reach."""

import json
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from kernelwright.core.record import Record
from kernelwright.report.census import Census


@dataclass(frozen=True, slots=True)
class Share:
    """Of what is possible, what was seen."""

    what: str
    seen: int
    possible: int
    missing: tuple[str, ...]


@dataclass(slots=True)
class Space:
    """What the recipes of some files allow."""

    families: dict[str, str] = field(default_factory=dict)
    """Of every operator."""
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

    def coverage(self, census: Census) -> list[Share]:
        """Of operators, attribute values and ordered pairs."""
        values = self.value_counts(census)
        return [
            _share("operators", self.families, census.operators),
            _share("attribute values", values, [value for value in values if values[value]]),
            _share("producer and consumer", self.pairs, census.pairs),
        ]

    def value_counts(self, census: Census) -> dict[tuple[str, str, str], int]:
        """Calls by (operator, attribute, value); those that leave an attribute out have its
        default."""
        given: Counter[tuple[str, str]] = Counter()
        for (op, name, _), number in census.attributes.items():
            given[op, name] += number
        counts = {
            (*key, value): census.attributes[*key, value]
            for key, values in self.values.items()
            for value in sorted(values)
        }
        for key, default in self.defaults.items():
            if (*key, default) in counts:
                counts[*key, default] += census.operators[key[0]] - given[key]
        return counts


def space_of(headers: Iterable[Record]) -> Space | None:
    """Of all files together; None where none says."""
    space = Space()
    for header in headers:
        space.add(header["space"])
    return space if space.families else None


def _share(what: str, possible: Iterable[Hashable], seen: Iterable[Hashable]) -> Share:
    wanted, found = set(possible), set(seen)
    names = sorted(" ".join(key) if isinstance(key, tuple) else str(key) for key in wanted - found)
    return Share(what, len(wanted & found), len(wanted), tuple(names))
