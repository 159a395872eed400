"""Cuts of a program into parts, each of which becomes the kernels of one writer."""

import random
from collections.abc import Mapping, Set
from functools import cache, cached_property

from kernelwright.programs.fragments.combine import Option, circular, combine
from kernelwright.programs.fragments.fragment import RELABELLING, CallGraph, part_of
from kernelwright.programs.fragments.partition import propose, undoes_layout
from kernelwright.programs.program import Program
from kernelwright.programs.traffic import cut_seconds
from kernelwright.teacher.writer import family

_HELD_PS = 10**18
"""The gain of a cut with each call that it holds. A program takes less than 10^6 seconds."""


class ProgramCuts:
    """Ways to cut a program into parts that can be written."""

    def __init__(self, program: Program) -> None:
        """Finds the parts of one call."""
        self.program = program
        self._family = cache(family)
        self._graph = CallGraph(program)
        self._computing = frozenset(
            i for i, call in enumerate(program.calls) if call.op not in RELABELLING
        )
        self._lone = [
            part
            for part in (frozenset({i}) for i in sorted(self._computing))
            if self._family(part_of(program, part)) is not None
        ]
        self._limited = cache(self._grown)
        self._ps = cache(self._estimated_ps)

    @cached_property
    def _proposals(self) -> list[frozenset[int]]:
        """The parts that the search would propose. Cuts into small parts seldom need them, and
        they take a fifth of the time of a best answer to 20 calls."""
        return propose(self.program, self._family, every=True)

    def _grown(self, size: int) -> list[frozenset[int]]:
        """Parts of at most `size` calls, grown call by call from single calls.

        The proposals have few parts of a given size. Each grown part has a family that accepts it.
        """
        # A dict keeps the order of insertion, so equal seeds draw equal cuts; a set would not.
        parts = dict.fromkeys(self._lone)
        newest = list(parts)
        for _ in range(size - 1):
            larger = dict.fromkeys(
                part | {neighbour}
                for part in newest
                for i in sorted(part)
                for neighbour in sorted((self._graph.before[i] | self._graph.after[i]) - part)
            )
            # A path that leaves a part and returns would need the kernel's result as its input.
            newest = [
                part
                for part in larger
                if self._graph.is_convex(part)
                and not undoes_layout(self.program, part, self._graph)
                and self._family(part_of(self.program, part)) is not None
            ]
            parts |= dict.fromkeys(newest)
        return list(parts)

    def draw(self, size: int | None, rng: random.Random) -> list[frozenset[int]] | None:
        """Draws disjoint parts that together hold every call which is no view.

        A part is drawn with a weight of its number of calls, squared.

        Args:
            size: calls of a part, at most, if some part of this size holds the call; None: any.

        Returns:
            One part of all calls if the program has views alone: a kernel copies them. None if no
            part fits for some call.
        """
        calls = frozenset(range(len(self.program.calls)))
        if not self._computing:
            return [calls]
        parts: list[frozenset[int]] = []
        left = set(self._computing)
        while left:
            free = calls.difference(*parts)
            fitting = self._fitting(free, left, size)
            # Two parts that read each other's results have no order of execution. A part of one
            # call waits for nothing that its call did not wait for.
            fitting = [
                part
                for part in fitting
                if len(part) == 1 or not circular(self.program, [*parts, part])
            ]
            if not fitting:
                return None
            # If no part of this size fits, the smallest that fit are allowed.
            limit = max(size or len(calls), min(map(len, fitting)))
            fitting = [part for part in fitting if len(part) <= limit]
            (part,) = rng.choices(fitting, weights=[len(part) ** 2 for part in fitting])
            parts.append(part)
            left -= part
        return parts

    def best(
        self,
        size: int | None,
        launches: Mapping[frozenset[int], int | None],
        avoided: Set[frozenset[int]] = frozenset(),
    ) -> frozenset[frozenset[int]] | None:
        """The disjoint parts with the least estimated time that together hold every call which is
        no view. Equal programs have equal cuts.

        Args:
            size: calls of a part, at most, if some part of this size holds the call; None: any.
            launches: kernels of parts, None for parts that cannot be written; other parts: one.
            avoided: parts that the cut may not have.

        Returns:
            One part of all calls if the program has views alone. None if no parts fit.
        """
        if not self._computing:
            return frozenset({frozenset(range(len(self.program.calls)))})
        for limit in dict.fromkeys((size, None)):
            parts = [*self._lone, *self._proposals] if limit is None else self._limited(limit)
            options = [
                Option(part, self._gain_ps(part, kernels))
                for part in dict.fromkeys(parts)
                if part not in avoided and (kernels := launches.get(part, 1)) is not None
            ]
            chosen = [options[i].calls for i in combine(self.program, options)]
            if self._computing <= frozenset().union(*chosen):
                return frozenset(chosen)
        # Some call fits only parts within the calls that others leave free: parts are drawn, under
        # the same seed for all programs.
        drawn = self.draw(size, random.Random(0))
        return None if drawn is None else frozenset(drawn)

    def _gain_ps(self, part: frozenset[int], launches: int) -> int:
        """The gain of a cut with a part: minus the estimated time, and for each call that the part
        holds more than all time, because a cut must hold every call."""
        return _HELD_PS * len(part & self._computing) - self._ps(part, launches)

    def _estimated_ps(self, part: frozenset[int], launches: int) -> int:
        """Estimated picoseconds of a part. Sums of integers do not depend on their order, so equal
        cuts have equal sums."""
        return round(1e12 * cut_seconds(self.program, [part], launches))

    def _fitting(
        self, free: frozenset[int], left: set[int], size: int | None
    ) -> list[frozenset[int]]:
        """Parts within `free` that hold a call of `left`.

        Parts of at most `size` calls come first, then proposals. If none fits, parts are proposed
        anew within the free calls.
        """
        for limit in dict.fromkeys((size, None)):
            parts = self._proposals if limit is None else self._limited(limit)
            if fitting := [part for part in parts if part <= free and part & left]:
                return fitting
        return [
            part
            for part in propose(self.program, self._family, every=True, within=free)
            if part & left
        ]
