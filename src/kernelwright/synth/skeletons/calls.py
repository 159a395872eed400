"""Calls as a skeleton sees them: which slots read values of the skeleton, and what results.

Forms are many, and a skeleton sees little of a form. A slot that no result may stand in is
invisible, and forms that differ only in such slots are alike. So forms are grouped twice: first by
their visible part, then by the effect of a call on the values that wait to be read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, combinations, product
from typing import NamedTuple

from kernelwright.ops.forms.form import Form, ValueKind
from kernelwright.synth.skeletons.weighted import Weighted

Place = tuple[str, int]
"""A slot whatever the form: the parameter, and which of its tensors where it takes several."""
Kinds = tuple[int, ...]
"""A multiset of Kinds: their numbers, ascending."""


def places(form: Form) -> tuple[Place, ...]:
    """The places of the form's slots, in order."""
    seen: dict[str, int] = defaultdict(int)
    places_of_slots = []
    for slot in form.slots:
        places_of_slots.append((slot.param, seen[slot.param]))
        seen[slot.param] += 1
    return tuple(places_of_slots)


class Read(NamedTuple):
    """A slot that reads a result of an earlier call, or an input that several calls share. Every
    other slot takes an unshared input."""

    place: Place
    kind: ValueKind
    is_new: bool
    """The value is an input that this call is the first to read, and not the last."""


class Pattern(NamedTuple):
    """A call up to its operator and the values it reads."""

    reads: tuple[Read, ...]
    """The values that the call reads, in order of their places."""
    results: tuple[ValueKind, ...]


class _Visible(NamedTuple):
    """The part of a form that a skeleton sees."""

    slots: tuple[tuple[Place, ValueKind, bool], ...]
    """(place, kind, whether an input may stand in it) of the slots that may hold results, in order
    of their places."""
    results: tuple[ValueKind, ...]


class FittingForm(NamedTuple):
    """A form that can be called as a pattern says."""

    form: Form
    reads: tuple[int | None, ...]
    """For each of the form's slots which of the pattern's reads it is; None takes an input."""


class SkeletonStep(NamedTuple):
    """A pattern, and which of its results later calls read."""

    pattern: Pattern
    kept: tuple[int, ...]
    ops: Weighted[str]


class Calls:
    """All calls of some forms, by what they do to the values that wait to be read."""

    kinds: tuple[ValueKind, ...]
    """The kinds that a waiting value may have. The number of a kind is its position here."""
    rows: dict[Kinds, range]
    """The values that a call before the last may add to those that wait, by the values it reads of
    them: a part of `gains`, shortest first."""
    gains: list[Kinds]
    steps: list[Weighted[SkeletonStep]]
    """For each of `gains`: the calls that read those values and add this gain."""
    last: dict[Kinds, Weighted[SkeletonStep]]
    """The calls that may come last, by the values that they read. After one, no value waits."""
    ops: dict[Pattern, Weighted[str]]
    """The operators that can be called in each pattern."""

    def __init__(self, forms: Iterable[Form], weights: Mapping[str, int], width: int) -> None:
        """`weights`: operator -> weight of a call, 1 where not given. `width`: see `Skeletons`."""
        self._forms: dict[_Visible, dict[str, list[Form]]] = {}
        for form in forms:
            # An operator of weight 0 is in no skeleton, so its forms need no patterns.
            if weights.get(form.op, 1):
                self._forms.setdefault(_visible(form), {}).setdefault(form.op, []).append(form)
        # Different forms may have the same pattern. All of them are collected before the weights
        # are computed, so that a call is counted once and not once for each of its forms.
        self._makers: dict[Pattern, list[_Visible]] = {}
        for seen in self._forms:
            for pattern in _patterns(seen, width):
                self._makers.setdefault(pattern, []).append(seen)
        self.fits = cache(self._fits)
        """(pattern, operator) -> the forms of the operator that can be called so."""
        self.kinds = _readable(self._forms)
        self._number = {kind: index for index, kind in enumerate(self.kinds)}
        rows: dict[Kinds, dict[Kinds, list[SkeletonStep]]] = {}
        last: dict[Kinds, list[SkeletonStep]] = {}
        self.ops = {pattern: self._ops(pattern, weights) for pattern in self._makers}
        for pattern, ops in self.ops.items():
            reads = self._numbers(read.kind for read in pattern.reads if not read.is_new)
            for gain, kept in self._gains(pattern, width):
                rows.setdefault(reads, {}).setdefault(gain, []).append(
                    SkeletonStep(pattern, kept, ops)
                )
            # A new shared input is read again by a later call. After the last call there is none.
            if not any(read.is_new for read in pattern.reads):
                last.setdefault(reads, []).append(SkeletonStep(pattern, (), ops))
        self.last = {reads: _weighted(steps) for reads, steps in last.items()}
        self._number_gains(rows)

    def _fits(self, pattern: Pattern, op: str) -> tuple[FittingForm, ...]:
        which = {read.place: index for index, read in enumerate(pattern.reads)}
        forms = (self._forms[seen].get(op, ()) for seen in self._makers[pattern])
        return tuple(
            FittingForm(form, tuple(map(which.get, places(form))))
            for form in chain.from_iterable(forms)
        )

    def _ops(self, pattern: Pattern, weights: Mapping[str, int]) -> Weighted[str]:
        by_op = (self._forms[seen] for seen in self._makers[pattern])
        ops = tuple(dict.fromkeys(chain.from_iterable(by_op)))
        return Weighted(ops, (weights.get(op, 1) for op in ops))

    def _gains(self, pattern: Pattern, width: int) -> Iterator[tuple[Kinds, tuple[int, ...]]]:
        """Yields each set of values that a call before the last can add to the waiting values.

        Each item is (Kinds of the values, positions of the call's results among them).
        """
        new = [read.kind for read in pattern.reads if read.is_new]
        useful = [at for at, kind in enumerate(pattern.results) if kind in self._number]
        # At least one result is kept: a call whose results nobody reads would compute in vain.
        for size in range(1, width - len(new) + 1):
            for kept in combinations(useful, size):
                yield self._numbers((*new, *(pattern.results[at] for at in kept))), kept

    def _numbers(self, kinds: Iterable[ValueKind]) -> Kinds:
        return tuple(sorted(map(self._number.__getitem__, kinds)))

    def _number_gains(self, rows: Mapping[Kinds, Mapping[Kinds, Sequence[SkeletonStep]]]) -> None:
        # A row is sorted by length. So the gains that still fit into the width are the begin of
        # the row, and `counting` finds their end by bisection.
        self.rows, self.gains, self.steps = {}, [], []
        for reads, cells in rows.items():
            self.rows[reads] = range(len(self.gains), len(self.gains) + len(cells))
            for gain in sorted(cells, key=lambda kinds: (len(kinds), kinds)):
                self.gains.append(gain)
                self.steps.append(_weighted(cells[gain]))


def _visible(form: Form) -> _Visible:
    slots = (
        (place, slot.kind, slot.reads_inputs)
        for place, slot in zip(places(form), form.slots, strict=True)
        if slot.reads_results
    )
    return _Visible(tuple(sorted(slots, key=lambda slot: slot[0])), form.results)


def _patterns(seen: _Visible, width: int) -> Iterator[Pattern]:
    """Yields every way to connect the visible slots.

    A slot reads a value that waits, reads a new shared input, or reads no value of the skeleton.
    """
    options = [
        (Read(place, kind, False), *((Read(place, kind, True), None) if takes_inputs else ()))
        for place, kind, takes_inputs in seen.slots
    ]
    for chosen in product(*options):
        reads = tuple(read for read in chosen if read is not None)
        num_new = sum(read.is_new for read in reads)
        # New inputs wait after the call together with at least one result: fewer than `width`.
        # The other reads take values that wait before the call: at most `width`.
        if num_new < width and len(reads) - num_new <= width:
            yield Pattern(reads, seen.results)


def _readable(visible: Iterable[_Visible]) -> tuple[ValueKind, ...]:
    """The Kinds that some slot can read. A value of any other Kind would wait for ever."""
    kinds = {kind for seen in visible for _, kind, _ in seen.slots}
    return tuple(sorted(kinds, key=lambda kind: (kind.rank, kind.dtype)))


def _weighted(steps: Sequence[SkeletonStep]) -> Weighted[SkeletonStep]:
    return Weighted(steps, (step.ops.total for step in steps))
