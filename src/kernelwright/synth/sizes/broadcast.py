"""Choices of calls whose operands broadcast, axis by axis.

The sizes of the operands leave only few choices. Along an axis, an operand of size 1 cannot have
the result's size if another operand is larger. An operand whose size is not 1 must have the
result's size. So the choices that agree with the sizes are known without a trial. If a draw from
all choices gives another choice, the draft is given up at once: a trial would end in a
contradiction too.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from random import Random
from typing import NamedTuple

from kernelwright.ops.forms.form import Arrangement, Form, Menu, Shape
from kernelwright.ops.sizes import Size
from kernelwright.synth.sizes.equations import Contradiction
from kernelwright.synth.skeletons.weighted import Weighted, weighted

Pattern = Sequence[bool]
"""Whether each slot holds the size of an axis."""

Holds = tuple[bool | None, ...]
"""The sizes that a slot reads, for each dimension: a size that must be held (True, not 1), a size
of 1 (False), or either (None)."""


def holds(shape: Shape, low: int) -> Holds:
    """For each size of a shape: whether a slot must, may or cannot hold the size (see `Holds`).

    An open size is at least `low`: it cannot be 1 if `low` is 2 or more.
    """
    return tuple(
        [size != 1 if isinstance(size, int) else True if low > 1 else None for size in shape]
    )


class _AxisRead(NamedTuple):
    """Two bit sets of slots, by the sizes that they read along an axis."""

    wide: int
    """The slots that read a size which must be held."""
    ones: int


class HeldChoices(NamedTuple):
    """Choices that give the same sizes to the same slots. Only the slots that a plan asks for
    count."""

    shapes: tuple[Shape, ...]
    """The shapes of the slots that are looked at."""
    result: Shape
    weight: int
    patterns: tuple[Weighted[Pattern], ...]
    """The patterns of each axis, with their weights."""


class Broadcast:
    """Draws the arrangements of one form whose operands broadcast."""

    def __init__(self, form: Form) -> None:
        assert form.axes is not None
        self._axes = form.axes
        self._num_slots = len(form.slots)
        self._patterns = [
            _Patterns(form.menus[axis.menu] if axis.menu else _only(axis.slots, self._num_slots))
            for axis in form.axes
        ]
        its_own = {axis.menu for axis in form.axes}
        self._attributes = {n: menu for n, menu in form.menus.items() if n not in its_own}
        self._result = tuple(axis.size for axis in reversed(form.axes))
        self.total = prod(patterns.total for patterns in self._patterns)
        """Weight of all choices but those of attributes."""

    def draw(self, read: Sequence[Holds | None], rng: Random) -> Arrangement:
        """Draws a choice from all choices by its weight, and returns its arrangement.

        Args:
            read: what each slot reads; None for a new input.

        Raises:
            Contradiction: the choice drawn does not agree with what is read. The probability is
                the share of such choices among all.
        """
        axis_pairs = zip(self._patterns, self._axes_read(read), strict=True)
        return self._arranged([p.draw(axis, rng) for p, axis in axis_pairs], rng)

    def draw_of(self, spread: HeldChoices, rng: Random) -> Arrangement:
        return self._arranged([patterns.draw(rng) for patterns in spread.patterns], rng)

    def spreads(
        self, read: Sequence[Holds | None], slots: Sequence[int], *, is_result_seen: bool
    ) -> Iterator[HeldChoices]:
        """The choices that agree with what is read, grouped by the shapes of `slots`."""
        groups = []
        for patterns, axis in zip(self._patterns, self._axes_read(read), strict=True):
            # A slot with a known size has that shape in every choice. Only the other slots can
            # make the shapes of two choices differ.
            slots_left = sum(1 << slot for slot in slots) & ~(axis.wide | axis.ones)
            groups.append(patterns.told_apart(axis, slots_left, is_result_seen))
        for together in product(*groups):
            # All patterns of a group give these slots the same sizes, so the first stands for all.
            shapes = self._shapes([patterns.items[0] for patterns in together])
            yield HeldChoices(
                tuple(shapes[slot] for slot in slots),
                self._result,
                prod(patterns.total for patterns in together),
                together,
            )

    def _axes_read(self, read: Sequence[Holds | None]) -> Iterator[_AxisRead]:
        # Axes count from the last, because operands of different rank are aligned at the last axis.
        for place, axis in enumerate(self._axes):
            wide = ones = 0
            for slot in axis.slots:
                if (have := read[slot]) is not None:
                    if have[-1 - place]:
                        wide |= 1 << slot
                    elif have[-1 - place] is False:
                        ones |= 1 << slot
            yield _AxisRead(wide, ones)

    def _arranged(self, patterns: Sequence[Pattern], rng: Random) -> Arrangement:
        attributes = {name: menu.draw(rng) for name, menu in self._attributes.items()}
        return Arrangement(self._shapes(patterns), (self._result,), attributes)

    def _shapes(self, patterns: Sequence[Pattern]) -> tuple[Shape, ...]:
        shapes: list[list[Size]] = [[] for _ in range(self._num_slots)]
        for axis, pattern in zip(self._axes, patterns, strict=True):
            for slot in axis.slots:
                shapes[slot].append(axis.size if pattern[slot] else 1)
        # Sizes were appended from the last axis on.
        return tuple([tuple(sizes[::-1]) for sizes in shapes])


class _Patterns:
    """Which slots hold the size of an axis."""

    def __init__(self, menu: Menu) -> None:
        weights = menu.weights or (1,) * len(menu.values)
        self._all = [
            (pattern, weight, _bits(pattern))
            for pattern, weight in zip(menu.values, weights, strict=True)
        ]
        self._fitting: dict[_AxisRead, Weighted[Pattern]] = {}
        """Sizes that are read along the axis -> the patterns that agree with them."""
        self.total = self._fitting_to(_AxisRead(0, 0)).total

    def draw(self, axis: _AxisRead, rng: Random) -> Pattern:
        """Draws a pattern from all patterns by its weight.

        Raises:
            Contradiction: the pattern drawn does not agree with the sizes of the axis.
        """
        fitting = self._fitting_to(axis)
        # Drawn from all patterns, fitting or not: the share that does not fit is the share of
        # drafts that must be given up. A draw from the fitting ones alone would favour this
        # skeleton.
        number = rng.randrange(self.total) if self.total > 1 else 0
        if number >= fitting.total:
            raise Contradiction("an operand that is not 1 broadcasts")
        return fitting.find(number)

    def _fitting_to(self, axis: _AxisRead) -> Weighted[Pattern]:
        fitting = self._fitting.get(axis)
        if fitting is None:
            those = self._those(axis)
            fitting = self._fitting[axis] = weighted((p, weight) for p, weight, _ in those)
        return fitting

    def told_apart(
        self, axis: _AxisRead, slots: int, is_result_seen: bool
    ) -> list[Weighted[Pattern]]:
        """The fitting patterns, grouped by which of `slots` hold the size and whether it is 1."""
        groups: dict[tuple[int, bool], list[tuple[Pattern, int]]] = {}
        for pattern, weight, bits in self._those(axis):
            # An operand of size 1 that holds the axis makes the result's size 1. This matters only
            # if somebody reads the result or another slot with that size.
            is_one = bool(bits & axis.ones) and (is_result_seen or slots != 0)
            groups.setdefault((bits & slots, is_one), []).append((pattern, weight))
        return [weighted(group) for group in groups.values()]

    def _those(self, axis: _AxisRead) -> Iterator[tuple[Pattern, int, int]]:
        """The patterns in which every wide operand, and no operand of size 1, holds the size; with
        their weights and bits.

        Without a wide operand, an operand of size 1 may hold the size, which is then 1.
        """
        for pattern, weight, bits in self._all:
            if axis.wide & bits == axis.wide and not (axis.wide and axis.ones & bits):
                yield pattern, weight, bits


def _only(slots: Sequence[int], num_slots: int) -> Menu:
    """The menu with one pattern, for an axis that only one slot has."""
    return Menu((tuple(slot in slots for slot in range(num_slots)),))


def _bits(pattern: Pattern) -> int:
    return sum(1 << slot for slot, is_set in enumerate(pattern) if is_set)
