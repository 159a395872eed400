"""Draws the sizes of a program from all solutions of its constraints, in proportion to a measure.

This is rejection sampling. Proposals follow the measure on a superset of the solutions, and
proposals that are no solutions are rejected. So the result follows the measure on the solutions,
exactly up to the 53 bits of a float. The first superset is the ranges of the roots, which is cheap
and suffices for most systems. The next supersets are relaxations over cells, coarse before fine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.ops.sizes import Expr, Size, Var, evaluate
from kernelwright.synth.recipe import SizeLimits
from kernelwright.synth.sizes.cells import Integers, Relaxation
from kernelwright.synth.sizes.equations import Equations
from kernelwright.synth.sizes.measure import Floats, Measure, Weights, evenly, weights
from kernelwright.synth.sizes.reading import read_system
from kernelwright.synth.sizes.system import System, Total

_PLAIN = (4, 64)
"""The numbers of proposals that the rounds draw from the ranges of the roots."""
_FEW = 4
"""Up to this number, proposals are checked one by one, which is then faster."""
_RELAXED = ((1 << 12, (512, 1024)), (1 << 15, (1024, 4096)), (1 << 17, (4096,) * 16))
"""Pairs: the most entries of a relaxation's tables, and the numbers of proposals that the rounds
draw from the relaxation."""
_MOST_REFUSED = 100
"""The most solutions that `accept` may refuse before the draw is given up."""
_MARGIN = 1e-6
"""The rounding error of log2. Sizes within the margin are checked again in integers."""


class NoSizes(ValueError):
    """The search found no solution, but there may be a solution. `Contradiction` in contrast is a
    proof that there is none."""


@dataclass(frozen=True, slots=True)
class DrawnSizes:
    values: Mapping[Var, int]
    """The value of every root; `evaluate(equations.solved(size), drawn.values.__getitem__)` is a
    size."""
    proposals: int
    """The number of checked proposals. The last proposal was taken."""
    accepted: int
    """The number of proposals within all bounds. `accept` refused all of these except the last."""


def draw_sizes(
    shapes: Sequence[Sequence[Size]],
    equations: Equations,
    limits: SizeLimits,
    rng: np.random.Generator,
    *,
    total: Total | None = None,
    accept: Callable[[Mapping[Var, int]], bool] = lambda _: True,
) -> DrawnSizes:
    """Draws values of the roots such that all shapes are within limits and `accept` agrees.

    Args:
        shapes: the shape of every tensor, in variables that `equations` relates.
        total: bounds of the sum over all tensors; None for no bounds.
        accept: a last test of an assignment of the roots.

    Raises:
        Contradiction: there is no solution.
        NoSizes: no proposal was a solution that `accept` takes.
    """
    asked = read_system(shapes, equations, limits, total)
    check: _Check | None = None
    proposals = accepted = 0
    for drawn in _proposals(asked, weights(Measure(limits.measure), limits.high), rng):
        columns: Iterable[int] = range(drawn.shape[1])
        # Floating point first: it leaves out most proposals a batch at a time. `holds` below
        # decides in integers.
        if drawn.shape[1] > _FEW:
            # Most draws end within the first four proposals, so these arrays are made late.
            check = check or _Check(asked)
            columns = check.survivors(drawn)
        for column in columns:
            # The first solution is taken, not the best: only so the draw follows the measure.
            values = [int(value) for value in drawn[:, column].tolist()]
            if asked.holds(values):
                accepted += 1
                assignment = dict(zip(asked.roots, values, strict=True))
                if accept(assignment):
                    return DrawnSizes(assignment, proposals + column + 1, accepted)
                if accepted > _MOST_REFUSED:
                    raise NoSizes(f"{accepted} solutions were not accepted")
        proposals += drawn.shape[1]
    raise NoSizes(f"no sizes in {proposals} proposals; {accepted} solutions were not accepted")


def _proposals(asked: System, measure: Weights, rng: np.random.Generator) -> Iterator[Floats]:
    """Yields batches of proposals, each an array of shape (number of roots, proposals)."""
    num_roots = len(asked.roots)
    uneven = [root for root in range(num_roots) if root not in asked.remainders]
    even = sorted(asked.remainders)

    def within(lows: Integers, highs: Integers, num: int) -> Floats:
        drawn = rng.random((num_roots, num))
        if not even:
            return measure.draw(lows, highs, drawn)
        drawn[uneven] = measure.draw(lows[uneven], highs[uneven], drawn[uneven])
        drawn[even] = evenly(lows[even], highs[even], drawn[even])
        return drawn

    ends = np.array(asked.ranges[:num_roots], np.int64).reshape(-1, 2, 1)
    # All sizes are constants, so there is one proposal.
    if not num_roots:
        yield np.zeros((0, 1))
        return
    # The ranges alone suffice for most systems. Relaxations come only after 68 misses, each with
    # finer cells.
    for num in _PLAIN:
        yield within(ends[:, 0], ends[:, 1], num)
    for max_entries, batches in _RELAXED:
        relaxation = Relaxation(asked, measure, max_entries)
        for num in batches:
            yield within(*relaxation.sample(num, rng), num)


class _Check:
    """Which proposals may be solutions, all at once in floating point."""

    def __init__(self, asked: System) -> None:
        self._asked = asked
        self._index = {root: i for i, root in enumerate(asked.roots)}
        self._ends = np.array(asked.ranges[len(asked.roots) :], float).reshape(-1, 2, 1)
        terms = asked.total.terms if asked.total else ()
        products = [*(m.columns for m in asked.monomials), *(columns for _, columns in terms)]
        self._exponents = np.zeros((len(products), len(asked.ranges)))
        for row, columns in enumerate(products):
            for column in columns:
                self._exponents[row, column] += 1
        ends = [(m.low / m.factor, m.high / m.factor) for m in asked.monomials]
        # Products of sizes pass 2^53 and lose digits; sums of logarithms do not. The margin covers
        # their rounding.
        logs = np.log2(np.array(ends, float).reshape(-1, 2, 1))
        self._log_low, self._log_high = logs[:, 0] - _MARGIN, logs[:, 1] + _MARGIN
        self._factors = np.array([factor for factor, _ in terms], float)

    def survivors(self, drawn: Floats) -> Iterator[int]:
        """The columns of `drawn` (roots, proposals) that may be solutions."""
        fits = np.ones(drawn.shape[1], bool)
        columns = drawn
        if self._asked.derived:
            derived = np.array([self._evaluate(e, drawn) for e in self._asked.derived])
            fits &= ((self._ends[:, 0] <= derived) & (derived <= self._ends[:, 1])).all(axis=0)
            columns = np.concatenate([drawn, derived])
        num_monomials = len(self._log_low)
        # Columns of 0 (remainders) are in no product. The maximum only avoids log2(0), because
        # 0 * -inf would put NaN into every product.
        logs = self._exponents @ np.log2(np.maximum(columns, 1))  # (products, any number)
        if num_monomials:
            elements = logs[:num_monomials]
            fits &= ((self._log_low <= elements) & (elements <= self._log_high)).all(axis=0)
        if self._asked.total:
            total = np.log2(self._factors @ np.exp2(logs[num_monomials:]))
            low, high = np.log2([self._asked.total.low, self._asked.total.high])
            fits &= (low - _MARGIN <= total) & (total <= high + _MARGIN)
        for expression in self._asked.residual:
            fits &= self._evaluate(expression, drawn) == 0
        return map(int, np.flatnonzero(fits))

    def _evaluate(self, expression: Expr, drawn: Floats) -> Floats:
        values: Floats = evaluate(expression, lambda variable: drawn[self._index[variable]])
        return values
