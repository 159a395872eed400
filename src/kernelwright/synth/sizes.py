"""Sizes of a program, drawn in proportion to a measure from all that satisfy its constraints.

Proposals are drawn from the measure on a simple superset of the solutions, a batch at a time, and
those that are no solutions are rejected; so what is left has the measure's distribution exactly (as
far as the 53 bits of a float go).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.ops.sizes import Expr, Size, Var, evaluate
from kernelwright.synth.equations import Equations
from kernelwright.synth.measure import Floats, Measure, cumulative
from kernelwright.synth.recipe import Sizes
from kernelwright.synth.system import System, system

_BATCHES = (32, 128, 512, 2048, 2048, 2048)
"""Proposals drawn at once; most systems need the first batch only."""
_MARGIN = 1e-6
"""Of log2: what rounding may do. Who is within is looked at again in integers."""


class NoSizes(ValueError):
    """No solution was found."""


@dataclass(frozen=True, slots=True)
class Drawn:
    values: Mapping[Var, int]
    """Of every root; `evaluate(equations.solved(size), drawn.values.__getitem__)` is a size."""
    proposals: int
    """Looked at, the last one is the one that was taken."""
    accepted: int
    """Of these, those within all bounds; all but the last one were refused by `accept`."""
    is_uniform: bool


def draw_sizes(
    shapes: Sequence[Sequence[Size]],
    equations: Equations,
    limits: Sizes,
    rng: np.random.Generator,
    *,
    accept: Callable[[Mapping[Var, int]], bool] = lambda _: True,
) -> Drawn:
    """Values of the roots: all shapes within limits, and accepted.

    Raises:
        Contradiction: there are none.
        NoSizes: none was found in as many proposals as are made.
    """
    asked = system(shapes, equations, limits)
    proposals = accepted = 0
    check = _Check(asked)
    for batch in _BATCHES:
        drawn = _from_measure(asked, limits, batch, rng)
        for column in check.survivors(drawn):
            values = [int(value) for value in drawn[:, column]]
            if asked.holds(values):
                accepted += 1
                assignment = dict(zip(asked.roots, values, strict=True))
                if accept(assignment):
                    return Drawn(assignment, proposals + column + 1, accepted, True)
        proposals += batch
    raise NoSizes(f"no sizes found in {proposals} proposals; {accepted} were within bounds")


def _from_measure(asked: System, limits: Sizes, batch: int, rng: np.random.Generator) -> Floats:
    """(roots, batch): each root from its range, by the measure."""
    num_roots = len(asked.roots)
    drawn = rng.random((num_roots, batch))
    measure = Measure(limits.measure)
    weights = cumulative(measure, limits.high)
    for root, (low, high) in enumerate(asked.ranges[:num_roots]):
        if root in asked.remainders or measure is Measure.UNIFORM:
            drawn[root] = low + np.floor(drawn[root] * (high - low + 1))
        else:
            below = weights[low - 1]
            total = below + drawn[root] * (weights[high] - below)
            drawn[root] = np.minimum(weights.searchsorted(total, side="right"), high)
    return drawn


class _Check:
    """Which columns of proposals may be solutions, all at once in floating point."""

    def __init__(self, asked: System) -> None:
        self._asked = asked
        self._index = {root: i for i, root in enumerate(asked.roots)}
        ranges = np.array(asked.ranges, float).reshape(-1, 2, 1)[len(asked.roots) :]
        self._low, self._high = ranges[:, 0], ranges[:, 1]
        self._exponents = np.zeros((len(asked.monomials), len(asked.ranges)))
        for row, monomial in enumerate(asked.monomials):
            for column in monomial.columns:
                self._exponents[row, column] += 1
        limits = [(m.low / m.factor, m.high / m.factor) for m in asked.monomials]
        log_limits = np.log2(np.array(limits, float).reshape(-1, 2, 1))
        self._log_low, self._log_high = log_limits[:, 0] - _MARGIN, log_limits[:, 1] + _MARGIN

    def survivors(self, drawn: Floats) -> Iterator[int]:
        fits = np.ones(drawn.shape[1], bool)
        columns = drawn
        if self._asked.derived:
            derived = np.array([self._evaluate(e, drawn) for e in self._asked.derived])
            fits &= ((self._low <= derived) & (derived <= self._high)).all(axis=0)
            columns = np.concatenate([drawn, np.maximum(derived, 1)])
        if self._asked.monomials:
            logs = self._exponents @ np.log2(np.maximum(columns, 1))
            fits &= ((self._log_low <= logs) & (logs <= self._log_high)).all(axis=0)
        for expression in self._asked.residual:
            fits &= self._evaluate(expression, drawn) == 0
        return map(int, np.flatnonzero(fits))

    def _evaluate(self, expression: Expr, drawn: Floats) -> Floats:
        values: Floats = evaluate(expression, lambda variable: drawn[self._index[variable]])
        return values
