"""A relaxation of a system that can be counted: the range of each root is cut into cells.

A combination of cells is left out only where interval arithmetic proves that it has no solution.
So a draw of a combination by its weight, then of values in its cells, follows the measure on a
superset of the solutions.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import floor

import numpy as np
from numpy.typing import NDArray

from kernelwright.ops.sizes import Expr, Var, evaluate, variables
from kernelwright.synth.sizes.elimination import (
    Elimination,
    Scope,
    Step,
    Table,
    largest_table,
    plan,
)
from kernelwright.synth.sizes.equations import Contradiction
from kernelwright.synth.sizes.measure import Weights
from kernelwright.synth.sizes.span import IntegerSpan
from kernelwright.synth.sizes.system import System

_RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 32.0, 256.0, 65536.0)
"""Largest to smallest value of a cell, finest first."""

Integers = NDArray[np.int64]
Cut = tuple[Integers, Integers]
"""Smallest and largest value of every cell of a range."""
Grid = Callable[[Var], IntegerSpan]
"""Root -> the intervals of its cells, along an axis of its own."""


class Relaxation:
    """Combinations of cells that may hold solutions."""

    def __init__(self, asked: System, weights: Weights, max_entries: int) -> None:
        """A relaxation with the finest cells whose tables have at most `max_entries` entries.

        If no cells are coarse enough, the coarsest are taken.

        Raises:
            Contradiction: no combination of cells can hold a solution.
        """
        asked_for = list(conditions(asked))
        steps = plan(len(asked.roots), [scope for scope, _ in asked_for])
        ratio = _finest(asked, steps, max_entries)
        cuts = [cut(*ends, ratio) for ends in asked.ranges[: len(asked.roots)]]
        tables: list[Table] = []
        for root, (lows, highs) in enumerate(cuts):
            # A remainder has no scale: its values weigh the same. Other roots weigh by the measure.
            is_even = root in asked.remainders
            weight = highs - lows + 1 if is_even else weights.between(lows, highs)
            # Scaled to 1, so that products of many tables stay in the range of a float.
            tables.append(((root,), weight / weight.sum()))
        for scope, may_hold in asked_for:
            tables.append((scope, may_hold(grid(asked, scope, cuts))))
        self._elimination = Elimination(steps, tables)
        if self._elimination.is_empty:
            raise Contradiction("no sizes are within all bounds")
        # The cells of all roots in one array: `sample` then reads all ends by one index array.
        self._lows = np.concatenate([lows for lows, _ in cuts])
        self._highs = np.concatenate([highs for _, highs in cuts])
        self._start = np.cumsum([0, *(len(lows) for lows, _ in cuts)])[:-1, None]

    def sample(self, num: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
        """(lows, highs) of the cells of `num` independent combinations; each has (roots, num)."""
        cells = self._elimination.sample(num, rng) + self._start
        return self._lows[cells], self._highs[cells]


def _finest(asked: System, steps: list[Step], max_entries: int) -> float:
    ranges = asked.ranges[: len(asked.roots)]
    # Finer cells leave out more combinations without a solution, and cost larger tables. The finest
    # cells whose tables fit are the best bargain.
    for ratio in _RATIOS:
        if largest_table(steps, [_num_cells(*ends, ratio) for ends in ranges]) <= max_entries:
            return ratio
    return _RATIOS[-1]


# Cells


def _num_cells(low: int, high: int, ratio: float) -> int:
    return high - low + 1 if ratio == 1 else len(cut(low, high, ratio)[0])


@lru_cache(maxsize=1 << 14)
def cut(low: int, high: int, ratio: float) -> Cut:
    """(lows, highs): the range from low to high, cut into cells with about high / low = ratio."""
    # Multiples of 0 stay 0, so a range that begins at 0 is cut as if it began at 1.
    shift = 1 - min(low, 1)  # Remainders start at 0
    lows, highs = [], []
    while low <= high:
        lows.append(low)
        highs.append(min(floor((low + shift) * ratio) - shift, high))
        low = highs[-1] + 1
    return np.array(lows), np.array(highs)


def grid(asked: System, scope: Scope, cuts: list[Cut]) -> Grid:
    """The cells of the roots in scope, each root along its own axis."""
    intervals = {}
    for axis, root in enumerate(scope):
        shape = [1] * len(scope)
        shape[axis] = -1
        lows, highs = cuts[root]
        intervals[asked.roots[root]] = IntegerSpan(
            lows.reshape(shape).astype(float), highs.reshape(shape).astype(float)
        )
    return intervals.__getitem__


# Conditions


def conditions(asked: System) -> Iterator[tuple[Scope, Callable[[Grid], NDArray[np.bool_]]]]:
    """For each condition: its roots, and a function that marks the cells where it can hold."""
    index = {root: i for i, root in enumerate(asked.roots)}
    columns: tuple[Expr, ...] = (*asked.roots, *asked.derived)

    def scope(*expressions: Expr) -> Scope:
        return tuple(sorted({index[v] for e in expressions for v in variables(e)}))

    for expression, (low, high) in zip(asked.derived, asked.ranges[len(index) :], strict=True):
        yield scope(expression), _meets((expression,), 1, low, high)
    for expression in asked.residual:
        yield scope(expression), _meets((expression,), 1, 0, 0)
    for monomial in asked.monomials:
        factors = tuple(columns[c] for c in monomial.columns)
        yield scope(*factors), _meets(factors, monomial.factor, monomial.low, monomial.high)


def _meets(
    factors: tuple[Expr, ...], scale: int, low: int, high: int
) -> Callable[[Grid], NDArray[np.bool_]]:
    def may_hold(grid: Grid) -> NDArray[np.bool_]:
        whole = evaluate(factors[0], grid) * scale
        for factor in factors[1:]:
            whole = whole * evaluate(factor, grid)
        met: NDArray[np.bool_] = (whole.low <= high) & (whole.high >= low)
        return met

    return may_hold
