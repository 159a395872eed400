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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement
from math import comb, perm, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelwright.synth.calls import Calls, Kinds, Row

Integers = npt.NDArray[np.int64]
Objects = npt.NDArray[Any]
"""Of Python integers."""


@dataclass(frozen=True, slots=True)
class Landing:
    """Which Kinds a call reads, and what waits still if none of its results did."""

    row: Row
    targets: Integers
    """The state after each of the row's first gains: those there is room for."""
    weights: Objects
    """Of these gains."""


@dataclass(frozen=True, slots=True)
class Move:
    """What the next call reads, up to which values of a Kind, and what of it for the last time."""

    reads: Kinds
    drops: Kinds
    ways: int
    landing: int


class Counts:
    """N_k(state) for states of at most `width` Kinds; grown as larger k are asked for.

    States and landings go by their numbers. In state 0 nothing waits.
    """

    def __init__(self, calls: Calls, width: int) -> None:
        self.states = _multisets(len(calls.kinds), width)
        self.landings: list[Landing] = []
        self.moves = self._all_moves(calls, width)
        self._weights = np.concatenate([_NONE, *(at.weights for at in self.landings)])
        self._targets = np.concatenate([_NONE, *(at.targets for at in self.landings)]).astype(int)
        self._starts = np.cumsum([0, *(len(at.targets) for at in self.landings)])[:-1]
        ends = ((state, calls.last.get(state)) for state in self.states)
        last = [_ways(state, state, state) * end.total if end else 0 for state, end in ends]
        self._counts = [_objects(last)]  # [k - 1][state]
        self._sums: list[Objects] = []  # [k - 2][landing]

    def count(self, k: int, state: int = 0) -> int:
        """N_k(state)."""
        while len(self._counts) < k:
            self._grow()
        counted: int = self._counts[k - 1][state]
        return counted

    def of_moves(self, k: int, state: int) -> list[int]:
        """The terms of N_k(state)'s outer sum; k is at least 2."""
        sums = self._sums[k - 2]
        return [move.ways * sums[move.landing] for move in self.moves[state]]

    def of_gains(self, k: int, landing: int) -> list[int]:
        """The terms of the inner sum."""
        at = self.landings[landing]
        terms: list[int] = (at.weights * self._counts[k - 2][at.targets]).tolist()
        return terms

    def _grow(self) -> None:
        terms = self._weights * self._counts[-1][self._targets]
        sums = np.add.reduceat(terms, self._starts)
        counts = [sum(move.ways * sums[move.landing] for move in moves) for moves in self.moves]
        self._sums.append(sums)
        self._counts.append(_objects(counts))

    def _all_moves(self, calls: Calls, width: int) -> list[list[Move]]:
        """Of every state. Makes the landings."""
        gains = {reads: _Gains(row, len(calls.kinds)) for reads, row in calls.rows.items()}
        number = {state: index for index, state in enumerate(self.states)}
        plus = _plus(self.states, number, len(calls.kinds), width)
        landings: dict[tuple[Kinds, Kinds], int] = {}

        def moves(state: Kinds) -> Iterator[Move]:
            for reads in _parts(state):
                if reads not in gains:
                    continue
                for drops in _parts(reads):
                    base = _without(state, drops)
                    if gains[reads].shortest > width - len(base):
                        continue
                    if (reads, base) not in landings:
                        landings[reads, base] = len(self.landings)
                        landing = gains[reads].landing(number[base], width - len(base), plus)
                        self.landings.append(landing)
                    yield Move(reads, drops, _ways(state, reads, drops), landings[reads, base])

        return [list(moves(state)) for state in self.states]


class _Gains:
    """A row's gains as arrays."""

    def __init__(self, row: Row, num_kinds: int) -> None:
        self._row = row
        longest = len(row.gains[-1])
        padded = [[*gain, *[num_kinds] * (longest - len(gain))] for gain in row.gains]
        self._kinds = np.array(padded).T  # (longest, gains)
        self._weights = _objects([steps.total for steps in row.steps])
        self._lengths = [len(gain) for gain in row.gains]
        self.shortest = self._lengths[0]

    def landing(self, base: int, room: int, plus: Integers) -> Landing:
        """With the state `base` and room for so many more values."""
        end = bisect(self._lengths, room)
        targets = np.full(end, base)
        for kinds in self._kinds[:room]:
            targets = plus[targets, kinds[:end]]
        return Landing(self._row, targets, self._weights[:end])


_NONE = np.array([], dtype=object)


def _objects(values: Sequence[int]) -> Objects:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _plus(
    states: Sequence[Kinds], number: Mapping[Kinds, int], num_kinds: int, width: int
) -> Integers:
    """[state, kind]: the state with one more; without any, for kind `num_kinds`."""
    table = np.full((len(states), num_kinds + 1), -1)
    table[:, num_kinds] = range(len(states))
    for index, state in enumerate(states):
        if len(state) < width:
            table[index, :-1] = [number[tuple(sorted((*state, kind)))] for kind in range(num_kinds)]
    return table


def _multisets(num_kinds: int, width: int) -> list[Kinds]:
    """Of up to `width` Kinds, the empty one first."""
    sizes = (combinations_with_replacement(range(num_kinds), size) for size in range(width + 1))
    return list(chain.from_iterable(sizes))


def _parts(kinds: Kinds) -> list[Kinds]:
    """The multisets contained in it, each once."""
    sizes = range(len(kinds) + 1)
    return sorted({part for size in sizes for part in combinations(kinds, size)})


def _without(kinds: Kinds, part: Kinds) -> Kinds:
    rest = list(kinds)
    for kind in part:
        rest.remove(kind)
    return tuple(rest)


def _ways(state: Kinds, reads: Kinds, drops: Kinds) -> int:
    """To give slots of the Kinds `reads` distinct values of the state, and to pick the drops."""
    return prod(
        perm(state.count(kind), reads.count(kind)) * comb(reads.count(kind), drops.count(kind))
        for kind in set(reads)
    )
