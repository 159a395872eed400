"""Counts the contents of programs: operators, shapes, dtypes, costs, from their records alone."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import frexp, prod
from pathlib import Path
from typing import Any, cast

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.data import DrawFields, DrawnProgramLine, GivenUpLine, SynthLine
from kernelwright.core.record import Record

Octave = int | None
"""k for what lies in [2^k, 2^(k+1)); None for 0."""


@dataclass(slots=True)
class Census:
    """Counts over all programs."""

    programs: int = 0
    groups: Counter[str] = field(default_factory=Counter)
    """Programs, by the group they were drawn for."""
    operators: Counter[str] = field(default_factory=Counter)
    """Calls."""
    attributes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Calls, by operator, attribute and its value as JSON, where the call gives it."""
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Readings of a result: by the operator that made it and the one that reads it."""
    ranks: Counter[int] = field(default_factory=Counter)
    """Counts over inputs and results, as are dtypes, sizes (of every axis) and elements."""
    dtypes: Counter[str] = field(default_factory=Counter)
    sizes: Counter[Octave] = field(default_factory=Counter)
    elements: Counter[Octave] = field(default_factory=Counter)
    flops: Counter[Octave] = field(default_factory=Counter)
    """Counts over programs, as are the fields that follow."""
    bytes: Counter[Octave] = field(default_factory=Counter)
    """That one perfect kernel moves."""
    intensity: Counter[Octave] = field(default_factory=Counter)
    """FLOPs for each of these."""
    depth: Counter[int] = field(default_factory=Counter)
    """Calls on the longest path."""
    width: Counter[int] = field(default_factory=Counter)
    """Most values that wait to be read after any call."""
    attempts: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Attempts, by why they gave no program."""
    given_up: Counter[str] = field(default_factory=Counter)
    """Programs not found, by group."""
    not_uniform: int = 0
    drafts: int = 0
    """Forms and choices drawn."""
    proposals: int = 0
    """Sizes proposed, and of these accepted by the bounds."""
    accepted: int = 0

    def to_json(self) -> Record:
        """Counters as objects, or as lists of [*key, count] where keys are several words."""
        values = ((attribute.name, getattr(self, attribute.name)) for attribute in fields(self))
        return {name: _plain(v) if isinstance(v, Counter) else v for name, v in values}


def _plain(counts: Counter[Any]) -> Any:
    if any(isinstance(key, tuple) for key in counts):
        return sorted([*key, count] for key, count in counts.items())
    return {str(key): count for key, count in sorted(counts.items(), key=by_key)}


def by_key(item: tuple[Any, int]) -> tuple[bool, Any]:
    """Sorts counts by key, that of 0 (None) first."""
    return item[0] is not None, item[0]


def read_census(paths: Iterable[Path]) -> tuple[Census, list[SynthLine]]:
    """(counts, headers of files that have one).

    Raises:
        UsageError: no such file, or no program in it.
    """
    census = Census()
    headers: list[SynthLine] = []
    for path in paths:
        before = census.programs
        if not path.is_file():
            raise UsageError("no such file", file=str(path))
        for line in record.read(path):
            if head := record.as_kind(line, SynthLine):
                headers.append(head)
            elif given_up := record.as_kind(line, GivenUpLine):
                _count_search(census, given_up["drawn"])
                census.given_up[given_up["drawn"]["group"]] += 1
            elif "calls" in line and "fingerprint" in line:
                count_program(census, cast(DrawnProgramLine, line))
        if census.programs == before:
            remedy = "give a file that `kernelwright synth --out FILE` wrote"
            raise UsageError("no programs here", file=str(path), remedy=remedy)
    return census, headers


def count_program(census: Census, line: DrawnProgramLine) -> None:
    """Add a program's record to the counts. Collected programs have no field `drawn`."""
    census.programs += 1
    if "drawn" in line:
        drawn = line["drawn"]
        _count_search(census, drawn)
        census.groups[drawn["group"]] += 1
        census.attempts += 1
        census.not_uniform += not drawn["uniform"]
    values = [*line["inputs"], *(value for call in line["calls"] for value in call["outputs"])]
    for value in values:
        shape = value["shape"]
        census.ranks[len(shape)] += 1
        census.dtypes[value["dtype"]] += 1
        census.sizes.update(map(octave, shape))
        census.elements[octave(prod(shape))] += 1
    census.flops[octave(line["flops"])] += 1
    census.bytes[octave(line["bytes_fused"])] += 1
    census.intensity[octave(line["intensity"])] += 1
    _count_calls(census, line["calls"])


def _count_search(census: Census, drawn: DrawFields) -> None:
    census.refused.update(drawn["refused"])
    census.attempts += sum(drawn["refused"].values())
    census.drafts += drawn["drafts"]
    census.proposals += drawn["proposals"]
    census.accepted += drawn["accepted"]


def _count_calls(census: Census, calls: list[Record]) -> None:
    """Count operators, attributes and pairs of a program's calls, and its depth and width."""
    maker: dict[str, str] = {}
    depth: dict[str, int] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for i, call in enumerate(calls):
        op, deepest = call["op"], 0
        census.operators[op] += 1
        for name, value in call["args"].items():
            refs = _refs(value)
            if not refs:
                census.attributes[op, name, json.dumps(value)] += 1
            for ref in refs:
                # An input has no call that makes it, so it waits from its first reading on.
                first.setdefault(ref, i)
                last[ref] = i
                deepest = max(deepest, depth.get(ref, 0))
                if ref in maker:
                    census.pairs[maker[ref], op] += 1
        for value in call["outputs"]:
            maker[value["name"]], depth[value["name"]] = op, deepest + 1
            first[value["name"]] = i
    census.depth[max(depth.values(), default=0)] += 1
    waiting = [sum(first[v] <= i < last[v] for v in last) for i in range(len(calls))]
    census.width[max(waiting, default=0)] += 1


def _refs(value: Any) -> list[str]:
    """Names of the values an argument reads."""
    items = value if isinstance(value, list) else [value]
    return [item["ref"] for item in items if isinstance(item, Mapping) and "ref" in item]


def octave(value: float) -> Octave:
    """The octave of a positive value; None for 0."""
    return None if value == 0 else frexp(value)[1] - 1
