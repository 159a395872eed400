"""A whole program as kernels of its own: cut into fragments, each written in some way.

The search cuts where it was measured to win. `write_whole` draws cuts and schedules by chance, so
that a model that learns from candidates sees several for a program. `write_best` writes the cut
that the cost model estimates to be the fastest. Nothing but views stays in PyTorch, and views stay
there only beside kernels.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache

from kernelwright.core.candidate import Candidate
from kernelwright.core.seed import derive
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.fragments.compose import Replacement, compose
from kernelwright.programs.fragments.fragment import part_of
from kernelwright.programs.program import Program
from kernelwright.programs.traffic import cut_seconds, kernel_launches
from kernelwright.teacher.cuts import ProgramCuts
from kernelwright.teacher.ways import Way, any_of, first_of
from kernelwright.teacher.writer import ways

WAYS = 4
"""Candidates of a fragment that one is drawn from: half favourites, half any."""
TRIES = 3
"""Cuts that are drawn for each candidate that is wanted, at most."""
SIZES = (1, 1, 2, None)
"""Calls of a part, at most, of which one is drawn for each candidate: half at least fuse nothing.
These are the easiest to write right: of parts of one call a model got 7% wrong, of five 64%."""


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
    program: Program, *, limit: int, calls: int | None = None, precision: str = "strict"
) -> list[Candidate]:
    """The candidates with the least estimated time, the fastest first. Each kernel has the schedule
    that its family prefers. Nothing is drawn: a model that learns from candidates can learn a rule,
    where it would have to guess a choice by chance.

    The cost model (`programs.traffic`) counts bytes and launches alone: it orders cuts, and knows
    nothing of schedules.

    Args:
        limit: at most this many. Each after the first avoids a part of the best cut.
        calls: of a kernel, at most, where the program has such a cut; None: any number.

    Returns:
        An empty list where some call has no form.
    """
    cuts, parts_of = _cuts_of(program), _parts_of(program, precision)
    launches: dict[frozenset[int], int | None] = {}
    best = _best_cut(cuts, parts_of, calls, launches, frozenset())
    if best is None:
        return []
    avoided = [part for part in sorted(best, key=min) if len(part) > 1] if limit > 1 else []
    others = [_best_cut(cuts, parts_of, calls, launches, frozenset({part})) for part in avoided]
    ranked = sorted(
        dict.fromkeys([best, *(cut for cut in others if cut is not None)]),
        key=lambda cut: cut_seconds(program, cut, sum(launches[part] or 0 for part in cut)),
    )
    candidates: dict[str, Candidate] = {}
    for cut in ranked:
        if len(candidates) == limit:
            break
        replacements = [parts_of.preferred(part) for part in sorted(cut, key=min)]
        written = [replacement for replacement in replacements if replacement is not None]
        if len(written) == len(cut):
            candidate = parts_of.whole(written)
            candidates.setdefault(candidate.source, candidate)
    return list(candidates.values())


def _best_cut(
    cuts: ProgramCuts,
    parts_of: "_Parts",
    calls: int | None,
    launches: dict[frozenset[int], int | None],
    avoided: frozenset[frozenset[int]],
) -> frozenset[frozenset[int]] | None:
    """The cut with the least estimated time whose parts are all written; None if there is none.

    Args:
        launches: of each written part, and None for a part that cannot be written. Parts are added.
        avoided: parts that the cut may not have.
    """
    # Only a written part shows how many kernels it launches. So the choice is repeated until all of
    # its parts are written. An unwritten part counts as one launch, the least possible.
    while (cut := cuts.best(calls, launches, avoided)) is not None:
        unwritten = cut - launches.keys()
        if not unwritten:
            return cut
        for part in unwritten:
            written = parts_of.preferred(part)
            launches[part] = None if written is None else kernel_launches(written.candidate)
    return None


class _Parts:
    """A program's parts and their ways, which several cuts share.

    Parts are written in the names of the whole. So a value has one name from the program's text to
    the kernel's loads, which helps readers and models that learn to write kernels.
    """

    def __init__(self, program: Program, precision: str) -> None:
        self.program, self.precision = program, precision
        self._ways = cache(self._ways_of)
        # Cuts share parts, and a cut asks for a part twice: to count launches, and to compose.
        self.preferred = cache(self._preferred)

    def written(self, parts: Sequence[frozenset[int]], rng: random.Random) -> Candidate | None:
        """The candidate of these parts, each in a drawn way; None if a part cannot be written."""
        replacements = []
        for part in parts:
            replacement = self._replacement(
                part, lambda ways: any_of(ways, WAYS, rng.randrange(1 << 31))
            )
            if replacement is None:
                return None
            replacements.append(replacement)
        return self.whole(replacements)

    def whole(self, replacements: Sequence[Replacement]) -> Candidate:
        """The candidate of written parts that together hold every call which is no view."""
        if _is_all(self.program, [r.calls for r in replacements]):
            return replacements[0].alone(self.program)
        return compose(self.program, replacements, deletes=False)

    def _preferred(self, part: frozenset[int]) -> Replacement | None:
        """A part in the way that its family puts first; None if the part cannot be written."""
        return self._replacement(part, first_of)

    def _replacement(
        self, part: frozenset[int], choose: Callable[[Sequence[Way]], Candidate | None]
    ) -> Replacement | None:
        own, ways_of_part = self._ways(part)
        candidate = choose(ways_of_part)
        if candidate is None:
            return None
        inputs = tuple(value.name for value in own.inputs)
        return Replacement(part, inputs, own.outputs, _with_types(own, candidate))

    def _ways_of(self, part: frozenset[int]) -> tuple[Program, list[Way]]:
        own = _own(self.program, part)
        # Nobody judges these candidates before a model learns from them.
        return own, [way for way in ways(own, self.precision) if way.is_sure]


# Drawn and best answers of a program are written one after the other, and share the same parts.
_cuts_of = lru_cache(1)(ProgramCuts)
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
