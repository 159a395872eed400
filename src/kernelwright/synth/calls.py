"""Calls as a skeleton sees them: which slots read values of the skeleton, and what results.

Forms are many and a skeleton sees little of them: a slot that no result may stand in is invisible,
and forms that differ in nothing else are one. So forms are first gathered by what is visible of
them, and then by what a call of theirs does to the values that wait to be read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, product
from typing import NamedTuple

from kernelwright.ops.forms.form import Form, Kind
from kernelwright.synth.weighted import Weighted

Place = tuple[str, int]
"""A slot whatever the form: the parameter, and which of its tensors where it takes several."""
Kinds = tuple[int, ...]
"""A multiset of Kinds: their numbers, ascending."""


def places(form: Form) -> tuple[Place, ...]:
    """Of the form's slots, in order."""
    seen: dict[str, int] = defaultdict(int)
    found = []
    for slot in form.slots:
        found.append((slot.param, seen[slot.param]))
        seen[slot.param] += 1
    return tuple(found)


class Read(NamedTuple):
    """A slot that reads a value of the skeleton; every other slot takes an input of its own."""

    place: Place
    kind: Kind
    is_new: bool
    """The value is an input that this call is the first to read, and not the last."""


class Pattern(NamedTuple):
    """A call up to its operator and the values it reads."""

    reads: tuple[Read, ...]
    """In order of their places."""
    results: tuple[Kind, ...]


class _Visible(NamedTuple):
    """What a skeleton sees of a form."""

    slots: tuple[tuple[Place, Kind, bool], ...]
    """Those that results may stand in, in order of their places; may an input?"""
    results: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A pattern, and which of its results later calls read."""

    pattern: Pattern
    kept: tuple[int, ...]
    ops: Weighted[str]


@dataclass(frozen=True, slots=True)
class Row:
    """What calls that read waiting values of certain Kinds add to those that wait."""

    gains: tuple[Kinds, ...]
    """Shortest first."""
    steps: tuple[Weighted[Step], ...]
    """One a gain."""


class Calls:
    """All calls of some forms, by what they do to the values that wait to be read."""

    kinds: tuple[Kind, ...]
    """That a value may have while it waits; their numbers are places in here."""
    rows: Mapping[Kinds, Row]
    """Calls before the last, by the Kinds of the waiting values they read."""
    last: Mapping[Kinds, Weighted[Step]]
    """Last calls, likewise. Nothing waits after one."""

    def __init__(self, forms: Iterable[Form], weights: Mapping[str, int], width: int) -> None:
        """`weights`: operator -> weight of a call, 1 where not given. `width`: see `Skeletons`."""
        self._forms: dict[_Visible, dict[str, list[Form]]] = {}
        for form in forms:
            if weights.get(form.op, 1):
                self._forms.setdefault(_visible(form), {}).setdefault(form.op, []).append(form)
        self._makers: dict[Pattern, list[_Visible]] = {}
        for seen in self._forms:
            for pattern in _patterns(seen, width):
                self._makers.setdefault(pattern, []).append(seen)
        self.kinds = _readable(self._makers)
        self.forms = cache(self._fitting)
        """(pattern, operator) -> the forms of the operator that can be called so."""
        self._gather(weights, width)

    def _fitting(self, pattern: Pattern, op: str) -> tuple[Form, ...]:
        made = (self._forms[seen].get(op, ()) for seen in self._makers[pattern])
        return tuple(chain.from_iterable(made))

    def _gather(self, weights: Mapping[str, int], width: int) -> None:
        number = {kind: index for index, kind in enumerate(self.kinds)}
        rows: dict[Kinds, dict[Kinds, list[Step]]] = {}
        last: dict[Kinds, list[Step]] = {}
        for pattern, makers in self._makers.items():
            named = tuple(dict.fromkeys(chain.from_iterable(self._forms[seen] for seen in makers)))
            ops = Weighted(named, (weights.get(op, 1) for op in named))
            read = tuple(sorted(number[r.kind] for r in pattern.reads if not r.is_new))
            new = [number.get(r.kind) for r in pattern.reads if r.is_new]
            if not new:
                last.setdefault(read, []).append(Step(pattern, (), ops))
            results = [number.get(kind) for kind in pattern.results]
            for kept in _subsets(len(results), width - len(new)):
                gain = [*new, *(results[index] for index in kept)]
                known = tuple(sorted(kind for kind in gain if kind is not None))
                if len(known) == len(gain):
                    cell = rows.setdefault(read, {}).setdefault(known, [])
                    cell.append(Step(pattern, kept, ops))
        self.rows = {read: _row(cells) for read, cells in rows.items()}
        self.last = {read: _weighted(steps) for read, steps in last.items()}


def _visible(form: Form) -> _Visible:
    slots = (
        (place, slot.kind, slot.reads_inputs)
        for place, slot in zip(places(form), form.slots, strict=True)
        if slot.reads_results
    )
    return _Visible(tuple(sorted(slots, key=lambda slot: slot[0])), form.results)


def _patterns(seen: _Visible, width: int) -> Iterator[Pattern]:
    """Every way to let slots read values: one that waits, a new input that will, or none."""
    options = [
        (Read(place, kind, False), *((Read(place, kind, True), None) if takes_inputs else ()))
        for place, kind, takes_inputs in seen.slots
    ]
    for chosen in product(*options):
        reads = tuple(read for read in chosen if read is not None)
        num_new = sum(read.is_new for read in reads)
        if num_new < width and len(reads) - num_new <= width:
            yield Pattern(reads, seen.results)


def _readable(patterns: Iterable[Pattern]) -> tuple[Kind, ...]:
    """A value of any other Kind would wait for ever."""
    found = {read.kind for pattern in patterns for read in pattern.reads if not read.is_new}
    return tuple(sorted(found, key=lambda kind: (kind.rank, kind.dtype)))


def _subsets(length: int, most: int) -> Iterator[tuple[int, ...]]:
    """Of places: those of 1 to `most`."""
    for size in range(1, min(length, most) + 1):
        yield from combinations(range(length), size)


def _row(cells: Mapping[Kinds, list[Step]]) -> Row:
    gains = tuple(sorted(cells, key=lambda gain: (len(gain), gain)))
    return Row(gains, tuple(_weighted(cells[gain]) for gain in gains))


def _weighted(steps: Sequence[Step]) -> Weighted[Step]:
    return Weighted(steps, (step.ops.total for step in steps))
