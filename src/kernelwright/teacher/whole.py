"""A whole program as kernels of its own: cut into fragments, each written in some way.

The search cuts where it was measured to win. `write_whole` draws cuts and schedules by chance, so
that a model that learns from candidates sees several for a program. `write_best` draws many cuts
and writes those that the cost model estimates to be the fastest. Nothing but views stays in
PyTorch, and views stay there only beside kernels.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from operator import itemgetter

from kernelwright.core.candidate import Candidate
from kernelwright.core.seed import derive
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.fragments.combine import circular
from kernelwright.programs.fragments.compose import Replacement, compose
from kernelwright.programs.fragments.fragment import RELABELLING, CallGraph, part_of
from kernelwright.programs.fragments.partition import propose, undoes_layout
from kernelwright.programs.program import Program
from kernelwright.programs.traffic import cut_seconds, kernel_launches
from kernelwright.teacher.ways import Way, any_of, first_of
from kernelwright.teacher.writer import family, ways

WAYS = 4
"""Candidates of a fragment that one is drawn from: half favourites, half any."""
TRIES = 3
"""Cuts that are drawn for each candidate that is wanted, at most."""
SIZES = (1, 1, 2, None)
"""Calls of a part, at most, of which one is drawn for each candidate: half at least fuse nothing.
These are the easiest to write right: of parts of one call a model got 7% wrong, of five 64%."""

CUTS = 12
"""Cuts that `write_best` draws."""
WRITTEN_CUTS = 3
"""Cuts whose parts `write_best` writes: those with the least estimated time. Only a written part
shows how many kernels it launches."""


def write_whole(
    program: Program, *, limit: int, seed: int, precision: str = "strict"
) -> list[Candidate]:
    """Distinct candidates for the program, in the order they were drawn.

    Args:
        limit: at most this many.
        seed: of cuts and schedules; equal seeds, equal candidates.

    Returns:
        An empty list where some call has no form.
    """
    by_source: dict[str, Candidate] = {}
    cuts, parts_of = _cuts_of(program), _parts_of(program, precision)
    for number in range(TRIES * limit):
        if len(by_source) == limit:
            break
        rng = random.Random(derive(seed, "whole", number))
        parts = cuts.draw(rng.choice(SIZES), rng)
        if parts is None:
            continue
        candidate = parts_of.written(parts, rng)
        if candidate is not None:
            by_source.setdefault(candidate.source, candidate)
    return list(by_source.values())


def write_best(
    program: Program,
    *,
    limit: int,
    seed: int,
    calls: int | None = None,
    precision: str = "strict",
) -> list[Candidate]:
    """The candidates with the least estimated time, the fastest first. Each kernel has the schedule
    that its family prefers.

    The cost model (`programs.traffic`) counts bytes and launches alone: it orders cuts, and knows
    nothing of schedules.

    Args:
        limit: at most this many.
        seed: of the cuts; equal seeds, equal candidates.
        calls: of a kernel, at most, where the program has such a cut; None: any number.

    Returns:
        An empty list where some call has no form.
    """
    cuts, parts_of = _cuts_of(program), _parts_of(program, precision)
    drawn: dict[frozenset[frozenset[int]], float] = {}
    for number in range(CUTS):
        rng = random.Random(derive(seed, "best", number))
        parts = cuts.draw(calls, rng)
        if parts is not None:
            drawn.setdefault(frozenset(parts), cut_seconds(program, parts))
    written: list[tuple[float, list[Replacement]]] = []
    for cut in sorted(drawn, key=drawn.__getitem__)[: max(limit, WRITTEN_CUTS)]:
        replacements = parts_of.preferred(sorted(cut, key=min))
        if replacements is not None:
            launches = sum(kernel_launches(r.candidate) for r in replacements)
            written.append((cut_seconds(program, cut, launches), replacements))
    candidates: dict[str, Candidate] = {}
    # To compose a whole takes far longer than to estimate its time.
    for _, replacements in sorted(written, key=itemgetter(0)):
        if len(candidates) == limit:
            break
        candidate = parts_of.whole(replacements)
        candidates.setdefault(candidate.source, candidate)
    return list(candidates.values())


class _Cuts:
    """Ways to cut a program into parts that can be written."""

    def __init__(self, program: Program) -> None:
        """Finds the parts of one call, and the parts that the search would propose."""
        self.program = program
        self._family = cache(family)
        self._proposals = propose(program, self._family, every=True)
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

    def _fitting(
        self, free: frozenset[int], left: set[int], size: int | None
    ) -> list[frozenset[int]]:
        """Parts within `free` that hold a call of `left`.

        Parts of at most `size` calls come first, then proposals. If none fits, parts are proposed
        anew within the free calls.
        """
        for parts in (self._limited(size) if size else (), self._proposals):
            if fitting := [part for part in parts if part <= free and part & left]:
                return fitting
        return [
            part
            for part in propose(self.program, self._family, every=True, within=free)
            if part & left
        ]


class _Parts:
    """A program's parts and their ways, which several cuts share.

    Parts are written in the names of the whole. So a value has one name from the program's text to
    the kernel's loads, which helps readers and models that learn to write kernels.
    """

    def __init__(self, program: Program, precision: str) -> None:
        self.program, self.precision = program, precision
        self._known: dict[frozenset[int], tuple[Program, list[Way]]] = {}

    def written(self, parts: Sequence[frozenset[int]], rng: random.Random) -> Candidate | None:
        """The candidate of these parts, each in a drawn way; None if a part cannot be written."""
        replacements = self._replacements(
            parts, lambda ways: any_of(ways, WAYS, rng.randrange(1 << 31))
        )
        return None if replacements is None else self.whole(replacements)

    def preferred(self, parts: Sequence[frozenset[int]]) -> list[Replacement] | None:
        """These parts, each in the way that its family puts first; None if a part cannot be
        written."""
        return self._replacements(parts, first_of)

    def whole(self, replacements: Sequence[Replacement]) -> Candidate:
        """The candidate of written parts that together hold every call which is no view."""
        if _is_all(self.program, [r.calls for r in replacements]):
            return replacements[0].alone(self.program)
        return compose(self.program, replacements, deletes=False)

    def _replacements(
        self,
        parts: Sequence[frozenset[int]],
        choose: Callable[[Sequence[Way]], Candidate | None],
    ) -> list[Replacement] | None:
        replacements = []
        for part in parts:
            own, ways_of_part = self._ways(part)
            candidate = choose(ways_of_part)
            if candidate is None:
                return None
            inputs = tuple(value.name for value in own.inputs)
            candidate_with_types = _with_types(own, candidate)
            replacements.append(Replacement(part, inputs, own.outputs, candidate_with_types))
        return replacements

    def _ways(self, part: frozenset[int]) -> tuple[Program, list[Way]]:
        if part not in self._known:
            own = _own(self.program, part)
            # Nobody judges these candidates before a model learns from them.
            sure = [way for way in ways(own, self.precision) if way.is_sure]
            self._known[part] = own, sure
        return self._known[part]


# Drawn and best answers of a program are written one after the other, and share the same parts.
_cuts_of = lru_cache(1)(_Cuts)
_parts_of = lru_cache(1)(_Parts)


def _own(program: Program, part: frozenset[int]) -> Program:
    """The part as a program whose inputs have the order in which they appear in the whole."""
    if _is_all(program, [part]):
        return program
    own = part_of(program, part)
    results = [name for call in program.calls for name in call.outputs]
    place = {name: at for at, name in enumerate([*(v.name for v in program.inputs), *results])}
    inputs = tuple(sorted(own.inputs, key=lambda value: place[value.name]))
    return Program(inputs, own.calls, own.outputs)


def _with_types(own: Program, candidate: Candidate) -> Candidate:
    """The candidate with a comment above its first kernel: types of the part's inputs and outputs.

    A kernel's arguments follow from these types. Without the comment, a model would have to look
    for them all over the program.
    """
    types = ", ".join(f"{value.name} {_said(value.type)}" for value in own.inputs)
    results = ", ".join(f"{name} {_said(own.type_of(name))}" for name in own.outputs)
    helpers, kernel, rest = candidate.source.partition(f"# Plan of {candidate.plan[0].kernel}\n")
    return replace(candidate, source=f"{helpers}# {types} -> {results}\n{kernel}{rest}")


def _said(made: TensorType) -> str:
    """A type as the comment has it: shape, dtype, and the layout unless it is contiguous."""
    layout = "" if made.layout is Layout.CONTIGUOUS else f" {made.layout}"
    return f"{made.shape} {made.dtype}{layout}"


def _is_all(program: Program, parts: Sequence[frozenset[int]]) -> bool:
    """Whether the parts are one part that holds every call of the program."""
    return len(parts) == 1 and len(parts[0]) == len(program.calls)
