"""How many skeletons there are: exact counts by what waits to be read.

The state between two calls is the multiset of the Kinds of the values that wait, that is, that a
later call reads. What may follow depends on the past through the state alone, so that

    N_1(S) = ways(S, S, S) * last(S)
    N_k(S) = sum over (R, D) of ways(S, R, D) * sum over G of row(R)[G] * N_{k-1}(S - D + G)

counts the ways to end a skeleton with k more calls: the next call reads the values R of S, of which
D are not read again; G is what starts to wait after it (new shared inputs and kept results);
row(R)[G] is the weight of the calls that do so. The values of a state are told apart, hence
`ways`: which of S are read in which slot, and which of these make up D. The inner sum depends on R
and S - D alone, the *landing*; it is the expensive one, and all moves to a landing share it.

Counts are Python integers in NumPy arrays of objects.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, combinations_with_replacement
from math import comb, perm, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelwright.synth.skeletons.calls import Calls, Kinds
from kernelwright.synth.skeletons.weighted import Weighted

Integers = npt.NDArray[np.int64]
Objects = npt.NDArray[Any]
"""An array of Python integers."""


class Landing(NamedTuple):
    """The Kinds that a call reads, and the Kinds that still wait before its results are added."""

    gains: range
    """The numbers of values that may join the row of unread values."""
    base: int
    """The state of the values that still wait."""


class Move(NamedTuple):
    """A choice of the values that the next call reads, as a multiset of Kinds. `drops` are the
    values that no later call reads. `ways` counts the assignments of values to slots; `landing` is
    the landing's number."""

    reads: Kinds
    drops: Kinds
    ways: int
    landing: int


class SkeletonCounts:
    """N_k(state) for states of at most `width` Kinds; grown as larger k are asked for.

    States and landings go by their numbers. In state 0 nothing waits.
    """

    def __init__(self, calls: Calls, width: int) -> None:
        self.states = _multisets(len(calls.kinds), width)
        self._number = {state: index for index, state in enumerate(self.states)}
        self._landings: list[Landing] = []
        self.moves = self._all_moves(calls, width)
        gains = np.fromiter(chain.from_iterable(at.gains for at in self._landings), np.int64)
        self._starts = np.cumsum([0, *(len(at.gains) for at in self._landings)])
        self._targets = self._plus(calls.gains, gains, width)
        self._weights = _objects([steps.total for steps in calls.steps])[gains]
        ends = ((state, calls.last.get(state)) for state in self.states)
        last = [_ways(state, state, state) * end.total if end else 0 for state, end in ends]
        self._counts = [_objects(last)]  # [k - 1][state]
        self._sums: list[Objects] = []  # [k - 2][landing]

    def count(self, k: int, state: int = 0) -> int:
        """N_k(state): the total weight of the ways to end a skeleton with `k` more calls."""
        while len(self._counts) < k:
            self._grow()
        counted: int = self._counts[k - 1][state]
        return counted

    def by_move(self, k: int, state: int) -> Weighted[Move]:
        """The terms of the outer sum of N_k(state), to draw a move by.

        Requires k >= 2 and an earlier `count(k)`.
        """
        moves, sums = self.moves[state], self._sums[k - 2]
        return Weighted(moves, (move.ways * sums[move.landing] for move in moves))

    def by_gain(self, k: int, landing: int) -> Weighted[tuple[int, int]]:
        """The terms of the inner sum, to draw (number of the gain, number of the next state) by.

        Requires k >= 2 and an earlier `count(k)`.
        """
        part = slice(self._starts[landing], self._starts[landing + 1])
        targets = self._targets[part]
        gains = list(zip(self._landings[landing].gains, targets.tolist(), strict=True))
        return Weighted(gains, self._weights[part] * self._counts[k - 2][targets])

    def _grow(self) -> None:
        # The inner sum of the recursion, once for each landing. `reduceat` adds the terms between
        # two starts, on Python integers: the counts exceed 64 bits from about ten calls on.
        terms = self._weights * self._counts[-1][self._targets]
        sums = np.add.reduceat(terms, self._starts[:-1])
        counts = [sum(move.ways * sums[move.landing] for move in moves) for moves in self.moves]
        self._sums.append(sums)
        self._counts.append(_objects(counts))

    def _all_moves(self, calls: Calls, width: int) -> list[list[Move]]:
        """The moves of every state. Fills `self._landings` on the way."""
        drops_of = {reads: _parts(reads) for reads in calls.rows}
        # The end of the fitting gains depends on (reads, room) alone. States are many, so the
        # bisections are done once and not once a move.
        fitting = {
            (reads, room): range(row.start, bisect(calls.gains, room, row.start, row.stop, key=len))
            for reads, row in calls.rows.items()
            for room in range(width + 1)
        }
        landings: dict[tuple[Kinds, Kinds], int] = {}

        def moves(state: Kinds) -> Iterator[Move]:
            for reads in _parts(state):
                for drops in drops_of.get(reads, ()):
                    base = _without(state, drops)
                    # Gains are sorted by length, so those that still fit into the width are a
                    # range.
                    if gains := fitting[reads, width - len(base)]:
                        # Moves that differ only in their drops share a landing, and so share the
                        # inner sum, which is the expensive part of the recursion.
                        landing = landings.setdefault((reads, base), len(landings))
                        if landing == len(self._landings):
                            self._landings.append(Landing(gains, self._number[base]))
                        yield Move(reads, drops, _ways(state, reads, drops), landing)

        return [list(moves(state)) for state in self.states]

    def _plus(self, gains: Sequence[Kinds], which: Integers, width: int) -> Integers:
        """The number of the state base + gain, for each landing and each of its gains in order.

        Args:
            gains: all gains, as multisets of Kinds.
            which: the indices of the landings' gains, all landings one after the other.
        """
        nothing = max(chain.from_iterable(self.states), default=-1) + 1
        plus = np.full((len(self.states), nothing + 1), -1)
        plus[:, nothing] = range(len(self.states))
        for index, state in enumerate(self.states):
            if len(state) < width:
                more = (tuple(sorted((*state, kind))) for kind in range(nothing))
                plus[index, :-1] = [self._number[state] for state in more]
        filled = [(*gain, *[nothing] * (width - len(gain))) for gain in gains]
        bases = np.array([at.base for at in self._landings], dtype=np.int64)
        targets = np.repeat(bases, np.diff(self._starts))
        # One Kind at a time: state plus Kind is a table, a state plus several Kinds is a chain of
        # look-ups. The filler `nothing` leads from a state to itself.
        for kinds in np.array(filled, dtype=np.int64).reshape(-1, width).T:
            targets = plus[targets, kinds[which]]
        return targets


def _objects(values: Sequence[int]) -> Objects:
    # `np.array(values)` would choose int64 for small counts, and later products would overflow.
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _multisets(num_kinds: int, width: int) -> list[Kinds]:
    """All multisets of up to `width` kinds, the empty one first."""
    sizes = (combinations_with_replacement(range(num_kinds), size) for size in range(width + 1))
    return list(chain.from_iterable(sizes))


def _parts(kinds: Kinds) -> list[Kinds]:
    """The multisets that `kinds` contains, each once, in ascending order."""
    sizes = range(len(kinds) + 1)
    return sorted({part for size in sizes for part in combinations(kinds, size)})


def _without(kinds: Kinds, part: Kinds) -> Kinds:
    rest = list(kinds)
    for kind in part:
        rest.remove(kind)
    return tuple(rest)


def _ways(state: Kinds, reads: Kinds, drops: Kinds) -> int:
    """The number of ways to assign distinct values of the state to the slots, and to pick drops.

    A slot of a Kind takes any value of the Kind: perm. Which of the values read are dropped is a
    subset: comb.
    """
    return prod(
        perm(state.count(kind), reads.count(kind)) * comb(reads.count(kind), drops.count(kind))
        for kind in set(reads)
    )
