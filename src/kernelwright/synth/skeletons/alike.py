"""Groups the choices of a call by the shapes that they ask of inputs and give to results.

The rest of the program depends on a choice only through these shapes. So a plan counts all
choices of a group together, whatever their forms.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, product
from math import lcm, prod
from random import Random
from typing import Any, NamedTuple

from kernelwright.ops.forms.form import Arrangement, Form, Menu, Shape
from kernelwright.ops.sizes import Expr, Size, Var, evaluate, variables
from kernelwright.synth.sizes.anew import named_anew, only_ones
from kernelwright.synth.sizes.broadcast import Broadcast, Holds
from kernelwright.synth.skeletons.calls import FittingForm
from kernelwright.synth.skeletons.weighted import Weighted, weighted

_KEPT = 1 << 14

_MANY = 64
"""If a form has more choices than this, its operator's rule is not asked about each of them."""

Way = tuple[FittingForm, Callable[[Random], Arrangement]]
"""Some choices of a form, and a draw from them."""


class Alike(NamedTuple):
    """Choices of a call that make no difference to the rest of the program."""

    asks: tuple[tuple[int, Size], ...]
    """(place, size): two sizes that must be equal. `place` counts the sizes of all shapes that
    the call reads; `size` has variables that only this call uses."""
    made: tuple[Shape, ...]
    """The shapes of the inputs that the call is the first to read, and of the results asked for."""
    ways: Weighted[Way]


class Sight(NamedTuple):
    """The facts by which a plan distinguishes the choices of a call."""

    read: tuple[Holds | None, ...]
    """The size that each value that the call reads must hold; None for an input that is made
    here."""
    matters: tuple[bool, ...]
    """For each size that is read: whether a later choice depends on the size, or the size is known.
    A size that must be a constant, or equal to a size that matters, matters too."""
    results: tuple[int, ...]
    """The positions of the results that later calls read."""
    is_coarse: bool
    """Whether all sizes other than 1 count as alike."""


class Choices:
    """Groups the choices of calls. All forms of a call have the same total weight, including
    refused choices. The shapes that the call reads do not change this weight."""

    def __init__(self) -> None:
        self.broadcast = lru_cache(_KEPT)(Broadcast)
        self.alike = lru_cache(_KEPT)(self._alike)
        self._arranged = lru_cache(_KEPT)(_arranged)
        self._scale = lru_cache(_KEPT)(self._common)

    def _alike(self, fits: tuple[FittingForm, ...], sight: Sight) -> tuple[Alike, ...]:
        """The groups of choices that `sight` does not exclude, each with its weight."""
        groups: dict[_Seen, list[tuple[Way, int]]] = {}
        scale = self._scale(fits)
        for fit in fits:
            # The pattern orders reads by place, a form orders slots in its own way.
            slots = [fit.reads.index(at) for at in range(len(sight.read))]
            # Forms weigh the same, however many choices each has. Weights are integers, so each
            # form is scaled to the least common multiple: exact, and without fractions.
            factor = scale // self._total(fit.form)
            for shapes, results, weight, way in self._ways(fit, slots, sight):
                seen = _seen(shapes, results, sight)
                groups.setdefault(seen, []).append(((fit, way), weight * factor))
        return tuple(Alike(*seen, weighted(ways)) for seen, ways in groups.items())

    def _ways(
        self, fit: FittingForm, slots: Sequence[int], sight: Sight
    ) -> Iterator[tuple[tuple[Shape, ...], Sequence[Shape], int, Callable[[Random], Arrangement]]]:
        """Yields (shapes of `slots`, shapes of results, weight, draw) for each group of choices.

        `draw` takes a `Random` and returns an arrangement of the group.
        """
        if fit.form.axes is None:
            # Where a size is 1, the operator may give another result shape, or refuse: ask its rule
            # again.
            has_ones = any(False in have for have in sight.read if have is not None)
            for same in self._arranged(fit.form):
                shapes = tuple([same.items[0].shapes[slot] for slot in slots])
                results: tuple[Shape, ...] | None = same.items[0].results
                if has_ones:
                    results = _results(fit.form, same.items, shapes, sight.read)
                if results is not None:
                    yield shapes, results, same.total, same.draw
        else:
            broadcast = self.broadcast(fit.form)
            read = [None if at is None else sight.read[at] for at in fit.reads]
            is_seen = bool(sight.results)
            for spread in broadcast.spreads(read, slots, is_result_seen=is_seen):
                draw = partial(broadcast.draw_of, spread)
                yield spread.shapes, (spread.result,), spread.weight, draw

    def _common(self, fits: Sequence[FittingForm]) -> int:
        return lcm(*(self._total(fit.form) for fit in fits))

    def _total(self, form: Form) -> int:
        if form.axes is not None:
            return self.broadcast(form).total
        return prod(sum(_weights(menu)) for menu in form.menus.values())


def _results(
    form: Form, same: Sequence[Arrangement], shapes: Sequence[Shape], read: Sequence[Holds | None]
) -> tuple[Shape, ...] | None:
    """The result shapes of arrangements with equal shapes, where some sizes read are 1.
    None if the operator refuses all these arrangements."""
    ones = {
        size
        for shape, have in zip(shapes, read, strict=True)
        if have is not None
        for size, is_held in zip(shape, have, strict=True)
        if isinstance(size, Var) and is_held is False
    }

    def sized(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(sized, value))
        if isinstance(value, Expr):
            return evaluate(value, lambda variable: 1 if variable in ones else variable)
        return value

    results = tuple([sized(shape) for shape in same[0].results])
    if not all(isinstance(size, Expr) or size > 0 for size in chain(*results)):
        return None
    # To ask the rule for every choice of a large form costs more than the drafts that are lost.
    if prod(len(menu.values) for menu in form.menus.values()) > _MANY:
        return results
    for arranged in same:
        attributes = {name: sized(value) for name, value in arranged.attributes.items()}
        try:
            return form.rule([sized(shape) for shape in arranged.shapes], attributes)
        except ValueError:
            continue
    return None


_Seen = tuple[tuple[tuple[int, Size], ...], tuple[Shape, ...]]
"""(`asks`, `made`) of an `Alike`."""


def _seen(shapes: Sequence[Shape], results: Sequence[Shape], sight: Sight) -> _Seen:
    """The sight of a choice that comes to these shapes of the values read."""
    both = list(zip(shapes, sight.read, strict=True))
    wanted = [size for shape, read in both if read is not None for size in shape]
    # A size that shares a variable with a size that matters is bound to that size by an equation,
    # so both must be recorded. All other sizes are dropped, which makes more choices alike.
    asked = {
        variable
        for size, matters in zip(wanted, sight.matters, strict=True)
        if matters
        for variable in variables(size)
    }
    places = [
        place
        for place, size in enumerate(wanted)
        if isinstance(size, int) or (asked and not asked.isdisjoint(variables(size)))
    ]
    new = [shape for shape, read in both if read is None]
    look = only_ones if sight.is_coarse else named_anew
    made_shapes, asks = look(
        [*new, *(results[which] for which in sight.results)],
        tuple([wanted[place] for place in places]),
        letter="a",
    )
    return tuple(zip(places, asks, strict=True)), made_shapes


def _arranged(form: Form) -> list[Weighted[Arrangement]]:
    """All choices of a form that the operator accepts, arranged and grouped by their shapes.

    Slots that read only inputs of the program (weights, indices) do not count for the grouping.
    """
    groups: dict[tuple[tuple[Shape, ...], ...], list[tuple[Arrangement, int]]] = {}
    menus = [zip(menu.values, _weights(menu), strict=True) for menu in form.menus.values()]
    for choice in product(*menus):
        values = dict(zip(form.menus, (value for value, _ in choice), strict=True))
        try:
            arrangement = form.arrange(values)
        except ValueError:
            continue
        seen = zip(form.slots, arrangement.shapes, strict=True)
        shapes = tuple(shape for slot, shape in seen if slot.reads_results)
        group = groups.setdefault((shapes, arrangement.results), [])
        group.append((arrangement, prod(weight for _, weight in choice)))
    return [weighted(group) for group in groups.values()]


def _weights(menu: Menu) -> Sequence[int]:
    return menu.weights or (1,) * len(menu.values)
