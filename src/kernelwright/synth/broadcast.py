"""Choices of calls whose operands broadcast, drawn axis by axis.

Of all choices the sizes of what is read leave few: an operand that is 1 along an axis does not hold
a size that another one has, and one that is not 1 must hold it. Which choices go with the sizes is
known before any is tried. A draw from all of them that does not fall on one of those is given up
at once; this is what trying it would come to, too.
"""

from collections.abc import Sequence
from random import Random

from kernelwright.ops.forms.form import Arrangement, Form, Menu, Shape
from kernelwright.ops.sizes import Size
from kernelwright.synth.equations import Contradiction
from kernelwright.synth.weighted import Weighted

Pattern = Sequence[bool]
"""Whether each slot holds the size of an axis."""


class Broadcast:
    """The arrangements of one form."""

    def __init__(self, form: Form) -> None:
        assert form.axes is not None
        self._form = form
        self._patterns = [
            _Patterns(form.menus[axis.menu]) if axis.menu else None for axis in form.axes
        ]
        its_own = {axis.menu for axis in form.axes}
        self._attributes = {n: menu for n, menu in form.menus.items() if n not in its_own}
        self._result = tuple(axis.size for axis in reversed(form.axes))

    def draw(self, read: Sequence[Shape | None], low: int, rng: Random) -> Arrangement:
        """An arrangement of a choice, with the probability of the choice.

        Args:
            read: for each slot the sizes of what it reads; None for a new input.
            low: what is open is this at least.

        Raises:
            Contradiction: with the probability of all choices that do not go with what is read.
        """
        shapes: list[list[Size]] = [[] for _ in read]
        assert self._form.axes is not None
        for place, (axis, patterns) in enumerate(zip(self._form.axes, self._patterns, strict=True)):
            if patterns is None:
                shapes[axis.slots[0]].append(axis.size)
                continue
            wide = ones = 0
            for slot in axis.slots:
                if (sizes := read[slot]) is not None:
                    size = sizes[-1 - place]
                    if size == 1:
                        ones |= 1 << slot
                    elif isinstance(size, int) or low > 1:
                        wide |= 1 << slot
            pattern = patterns.draw(wide, ones, rng)
            for slot in axis.slots:
                shapes[slot].append(axis.size if pattern[slot] else 1)
        attributes = {name: menu.draw(rng) for name, menu in self._attributes.items()}
        return Arrangement(tuple(tuple(s[::-1]) for s in shapes), (self._result,), attributes)


class _Patterns:
    """Which slots hold the size of an axis."""

    def __init__(self, menu: Menu) -> None:
        self._menu = menu
        self._fitting: dict[tuple[int, int], Weighted[Pattern]] = {}
        """Those that go with sizes."""
        self._total = self.fitting(0, 0).total

    def draw(self, wide: int, ones: int, rng: Random) -> Pattern:
        """A pattern.

        Raises:
            Contradiction: with the probability of those that do not go with the sizes.
        """
        fitting = self.fitting(wide, ones if wide else 0)
        number = rng.randrange(self._total)
        if number >= fitting.total:
            raise Contradiction("an operand that is not 1 broadcasts")
        return fitting.find(number)

    def fitting(self, wide: int, ones: int) -> Weighted[Pattern]:
        """Those that the slots in `wide` are in, and none of `ones`; bits are slots."""
        found = self._fitting.get((wide, ones))
        if found is None:
            weights = self._menu.weights or (1,) * len(self._menu.values)
            each = [
                (pattern, weight)
                for pattern, weight in zip(self._menu.values, weights, strict=True)
                if wide & _bits(pattern) == wide and not ones & _bits(pattern)
            ]
            found = Weighted([pattern for pattern, _ in each], (weight for _, weight in each))
            self._fitting[wide, ones] = found
        return found


def _bits(pattern: Pattern) -> int:
    return sum(1 << slot for slot, holds in enumerate(pattern) if holds)
