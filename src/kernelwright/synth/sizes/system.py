"""The conditions on the sizes of a program, as the sampler reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kernelwright.ops.sizes import Expr, Var, evaluate
from kernelwright.synth.recipe import Interval

Range = tuple[int, int]
"""(lowest, highest) value, both included."""

Parts = tuple[int, tuple[int, ...]]
"""(factor, columns): the product of the factor and the columns."""


@dataclass(frozen=True, slots=True)
class Total:
    """Bounds of the sum of weight * number of elements over all tensors."""

    weights: Sequence[int]
    """The weight of each tensor. Where the total counts bytes, it is the bytes of an element."""
    limits: Interval


@dataclass(frozen=True, slots=True)
class Monomial:
    """low <= factor * product(columns) <= high"""

    factor: int
    columns: tuple[int, ...]
    """A column that comes twice is squared."""
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Inequality:
    """low <= sum(factor * product(columns)) <= high"""

    terms: tuple[Parts, ...]
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class System:
    """All conditions on the sizes of a program, in terms of columns.

    A column is a root, or an expression of roots (`derived`). Roots come first in `ranges`.
    """

    roots: tuple[Var, ...]
    derived: tuple[Expr, ...]
    ranges: tuple[Range, ...]
    """One a column, the roots first: what roots are drawn from, and what is asked of the others.
    All are positive but those of remainders."""
    remainders: frozenset[int]
    """The roots that are remainders of divisions, not sizes."""
    monomials: tuple[Monomial, ...]
    residual: tuple[Expr, ...]
    """Expressions that must be 0."""
    total: Inequality | None

    def holds(self, values: Sequence[int]) -> bool:
        """Whether the values of the roots are a solution; exact, in Python integers."""
        assigned = dict(zip(self.roots, values, strict=True)).__getitem__
        columns = [*values, *(evaluate(expression, assigned) for expression in self.derived)]
        return (
            all(low <= n <= high for n, (low, high) in zip(columns, self.ranges, strict=True))
            and all(
                m.low <= m.factor * prod([columns[c] for c in m.columns]) <= m.high
                for m in self.monomials
            )
            and not any(evaluate(expression, assigned) for expression in self.residual)
            and self._is_in_total(columns)
        )

    def _is_in_total(self, columns: Sequence[int]) -> bool:
        if self.total is None:
            return True
        whole = sum(f * prod([columns[c] for c in places]) for f, places in self.total.terms)
        return self.total.low <= whole <= self.total.high
