"""The contents of many programs of a recipe: operators, attribute values, pairs of producer and
consumer.

They are counted as they are drawn and never written: a million of them are gigabytes.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from kernelwright.core.record import Record
from kernelwright.programs.program import Program


@dataclass(slots=True)
class SpreadCounts:
    """Counts over programs."""

    operators: Counter[str] = field(default_factory=Counter)
    values: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(operator, attribute, value as text) -> calls."""
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(producer, consumer) -> readings."""

    def add(self, program: Program, attributes: Record) -> None:
        producer = program.producer()
        for call in program.calls:
            self.operators[call.op] += 1
            for name in attributes[call.op]:
                self.values[call.op, name, repr(call.arg(name))] += 1
            for name in call.refs():
                if name in producer:
                    self.pairs[program.calls[producer[name]].op, call.op] += 1

    def merge(self, other: "SpreadCounts") -> None:
        for name in ("operators", "values", "pairs"):
            getattr(self, name).update(getattr(other, name))


def found_of(whole: SpreadCounts, space: Record) -> Record:
    """How much of the space was met, and what was not."""
    values = [
        (op, name, repr(value))
        for op, attributes in space["attributes"].items()
        for name, known in attributes.items()
        for value in known["values"]
    ]
    counts = [whole.operators[op] for op in space["operators"]]
    return {
        "operators": len(counts),
        "operators_missing": [op for op in space["operators"] if not whole.operators[op]],
        "calls_of_an_operator": {"least": min(counts), "most": max(counts)},
        "values": len(values),
        "values_missing": [" ".join(value) for value in values if not whole.values[value]],
        "pairs": sum(1 for _ in possible_pairs(space)),
        "pairs_missing": len(missing_pairs(whole, space)),
        "calls": dict(whole.operators.most_common()),
    }


def missing_pairs(whole: SpreadCounts, space: Record) -> list[tuple[str, str]]:
    return [pair for pair in possible_pairs(space) if not whole.pairs[pair]]


def possible_pairs(space: Record) -> Iterator[tuple[str, str]]:
    """(producer, consumer) where the one makes a kind of value that the other reads."""
    for maker, reader in product(space["makes"], space["reads"]):
        if set(space["makes"][maker]) & set(space["reads"][reader]):
            yield maker, reader
