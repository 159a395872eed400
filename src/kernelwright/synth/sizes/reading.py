"""Turns shapes and equations into conditions on the roots.

The shapes of all tensors are solved and taken apart into monomials: a number times columns, where
a column is a root or an expression that cannot be multiplied out ("derived": x // 2, x + y). Ranges
are narrowed as far as intervals allow. Conditions that the ranges always satisfy are dropped.
"""

from collections.abc import Mapping, Sequence
from math import ceil, floor, prod

from kernelwright.ops.sizes import (
    Expr,
    Linear,
    Quotient,
    Size,
    SizeProduct,
    Var,
    evaluate,
    variables,
)
from kernelwright.synth.recipe import Interval, SizeLimits
from kernelwright.synth.sizes.equations import Contradiction, Equations
from kernelwright.synth.sizes.span import IntegerSpan
from kernelwright.synth.sizes.system import Inequality, Monomial, Parts, Range, System, Total

_LARGEST = 1 << 62
"""Stands in for an infinite end of a range."""
_NUM_PASSES = 6
"""The most passes that narrow ranges: ranges that stay too wide cost speed, never solutions."""


def read_system(
    shapes: Sequence[Sequence[Size]],
    equations: Equations,
    limits: SizeLimits,
    total: Total | None = None,
) -> System:
    """The conditions that the sizes of tensors with these shapes must satisfy.

    Sizes that are constants need not reach `limits.low`; factors of products are positive.

    Raises:
        Contradiction: the ranges exclude every solution.
    """
    equations.settle()
    reader = _SizeReader(equations, limits, total)
    for place, shape in enumerate(shapes):
        reader.read_shape(shape, total.weights[place] if total else 0)
    # A bound variable is no root any more, but its range still holds for what replaced it.
    for variable, value in equations.bound():
        reader.read_size(value, reader.range_of(variable))
    for expression in equations.residual:
        reader.read_zero(equations.solved(expression))
    for _ in range(_NUM_PASSES):
        if not reader.narrow():
            break
    return reader.system()


def _whole(limits: Interval) -> Range:
    low, high = limits
    return ceil(low), floor(min(high, _LARGEST))


class _SizeReader:
    def __init__(self, equations: Equations, limits: SizeLimits, total: Total | None) -> None:
        self.size = limits.low, limits.high
        self._elements = _whole(limits.elements)
        self._equations = equations
        self._total = _whole(total.limits) if total else (0, 0)
        self._columns: list[Expr] = []
        self._ranges: list[Range] = []
        self._numbers: dict[Expr, int] = {}
        """Column -> its place in the two lists."""
        self._monomials: dict[tuple[int, tuple[int, ...]], Range] = {}
        self._terms: dict[tuple[int, ...], int] = {}
        """Columns whose product is in the total -> its factor there."""
        self._zeros: list[Expr] = []
        self._sizes: dict[Size, Parts] = {}
        """Sizes as they were given, taken apart."""

    # Reading

    def range_of(self, variable: Var) -> Range:
        """The range of a variable."""
        divisor = self._equations.remainders.get(variable)
        if divisor is not None:
            return 0, divisor - 1
        return (1, self.size[1]) if variable in self._equations.multiples else self.size

    def read_shape(self, shape: Sequence[Size], weight: int) -> None:
        factor = 1
        columns: list[int] = []
        for size in shape:
            parts = self._sizes.get(size)
            if parts is None:
                parts = self.read_size(self._equations.solved(size), self.size)
                self._sizes[size] = parts
            factor *= parts[0]
            columns += parts[1]
        columns.sort()
        low, high = self._elements
        # One tensor alone must fit into the total. Unlike the sum, this bound concerns one product,
        # so it narrows ranges.
        if weight:
            high = min(high, self._total[1] // weight)
            self._terms[*columns,] = self._terms.get((*columns,), 0) + weight * factor
        self._limit(factor, columns, (low, high))

    def read_size(self, size: Size, limits: Range) -> Parts:
        """Adds the condition that a size, given in terms of roots, is within limits.

        Returns:
            The size as a number times columns.

        Raises:
            Contradiction: the size is a number outside the limits, or its range is empty.
        """
        # A constant 1 is an axis that broadcasts or is kept, and need not reach the lower limit.
        if isinstance(size, int):
            if not min(limits[0], 1) <= size <= limits[1]:
                raise Contradiction(f"a size of {size}")
            return size, ()
        # A known size within the same limits adds no condition.
        if size in self._numbers and limits == self._ranges[self._numbers[size]]:
            return 1, (self._numbers[size],)
        parts = self._taken_apart(size)
        self._limit(*parts, limits)
        return parts

    def read_zero(self, size: Size) -> None:
        if isinstance(size, Expr):
            for variable in variables(size):
                self._number(variable)
            self._zeros.append(size)
        elif size:
            raise Contradiction(f"{size} is not 0")

    def _taken_apart(self, size: Expr) -> Parts:
        match size:
            case SizeProduct():
                parts = [self._taken_apart(factor) for factor in size.factors]
                return prod(f for f, _ in parts), tuple(c for _, columns in parts for c in columns)
            case Linear(terms=((term, factor),), constant=0) if factor > 0:
                inner, columns = self._taken_apart(term)
                return factor * inner, columns
        return 1, (self._number(size),)

    def _number(self, column: Expr) -> int:
        number = self._numbers.get(column)
        if number is None:
            if not isinstance(column, Var):
                for variable in variables(column):
                    self._number(variable)
                limits = self._free_range(column)
            else:
                limits = self.range_of(column)
            number = self._numbers[column] = len(self._columns)
            self._columns.append(column)
            self._ranges.append(limits)
        return number

    def _limit(self, factor: int, columns: Sequence[int], limits: Range) -> None:
        """Adds the condition that factor * product(columns) is within limits."""
        # A product is narrowed by division by its other factors, so no factor may be 0.
        if len(columns) > 1:
            for column in columns:
                if self._ranges[column][0] < 1:
                    self._intersect(column, 1, self._ranges[column][1])
            key = factor, tuple(sorted(columns))
            low, high = self._monomials.get(key, limits)
            self._monomials[key] = max(low, limits[0]), min(high, limits[1])
        elif columns:
            # Rounded inwards: a column times the factor must lie within the limits.
            self._intersect(columns[0], -(-limits[0] // factor), limits[1] // factor)
        elif not limits[0] <= factor <= limits[1]:
            raise Contradiction(f"{factor} where {limits[0]} to {limits[1]} is asked")

    # Narrowing

    def narrow(self) -> bool:
        """Narrows the ranges of the roots by the conditions on columns and products.

        Returns:
            Whether any range became narrower.

        Raises:
            Contradiction: a range became empty.
        """
        before = list(self._ranges)
        for (factor, columns), limits in self._monomials.items():
            self._narrow_factors(factor, [self._columns[c] for c in columns], limits)
        for number, column in enumerate(self._columns):
            if not isinstance(column, Var):
                self._intersect(number, *self._free_range(column))
                self._narrow(column, self._ranges[number])
        for zero in self._zeros:
            self._narrow(zero, (0, 0))
        return self._ranges != before

    def _intersect(self, number: int, low: int, high: int) -> None:
        bottom, top = self._ranges[number]
        if low > bottom or high < top:
            bottom, top = max(low, bottom), min(high, top)
            if bottom > top:
                raise Contradiction(f"no {self._columns[number]} from {low} to {high}")
            self._ranges[number] = bottom, top

    def _narrow(self, size: Expr, limits: Range) -> None:
        low, high = limits
        match size:
            case Quotient():
                # x // d lies in low .. high if and only if x lies in this range.
                self._narrow(size.of, (low * size.divisor, (high + 1) * size.divisor - 1))
            case SizeProduct():
                self._narrow_factors(1, size.factors, limits)
            case Linear():
                ranges = [IntegerSpan(*self._range(term)) * factor for term, factor in size.terms]
                whole = sum(ranges, start=IntegerSpan(size.constant, size.constant))
                for (term, factor), own in zip(size.terms, ranges, strict=True):
                    # The other terms reach at most whole.high - own.high, and at least whole.low -
                    # own.low.
                    ends = low - (whole.high - own.high), high - (whole.low - own.low)
                    if factor < 0:
                        ends = -ends[1], -ends[0]
                    self._narrow(term, (-(-ends[0] // abs(factor)), ends[1] // abs(factor)))
        if size in self._numbers:
            self._intersect(self._numbers[size], low, high)

    def _narrow_factors(self, factor: int, factors: Sequence[Expr], limits: Range) -> None:
        ranges = [self._range(part) for part in factors]
        least = factor * prod([low for low, _ in ranges])
        # A factor that may be 0 or negative says nothing about the others, and divides below.
        if least < 1:
            return
        most = factor * prod([high for _, high in ranges])
        for part, (low, high) in zip(factors, ranges, strict=True):
            # most // high is the largest product of the other factors, least // low the smallest.
            bottom, top = -(-limits[0] // (most // high)), limits[1] // (least // low)
            if bottom > low or top < high:
                self._narrow(part, (bottom, top))

    def _range(self, size: Expr) -> Range:
        number = self._numbers.get(size)
        return self._free_range(size) if number is None else self._ranges[number]

    def _free_range(self, size: Expr) -> Range:
        """The range that the roots allow, without the conditions on the size itself."""
        ends = evaluate(size, lambda variable: IntegerSpan(*self._ranges[self._numbers[variable]]))
        return ends.low, ends.high

    # What is left

    def system(self) -> System:
        # Conditions that the ranges already imply are dropped: every proposal would pass them, and
        # each would cost time for each proposal.
        monomials = {
            key: limits for key, limits in self._monomials.items() if self._binds(*key, limits)
        }
        used = {c for columns in (*self._terms, *(key[1] for key in monomials)) for c in columns}
        roots = {n: c for n, c in enumerate(self._columns) if isinstance(c, Var)}
        derived = {
            n: c
            for n, c in enumerate(self._columns)
            if n not in roots and (n in used or self._may_leave(n))
        }
        place = {number: i for i, number in enumerate((*roots, *derived))}
        remainders = self._equations.remainders
        return System(
            tuple(roots.values()),
            tuple(derived.values()),
            tuple(self._ranges[n] for n in place),
            frozenset(place[n] for n, c in roots.items() if c in remainders),
            tuple(
                Monomial(factor, tuple(sorted(place[c] for c in columns)), *limits)
                for (factor, columns), limits in monomials.items()
            ),
            tuple(self._zeros),
            self._sum(place),
        )

    def _sum(self, place: Mapping[int, int]) -> Inequality | None:
        low, high = self._total
        least = sum(f * prod([self._ranges[c][0] for c in cs]) for cs, f in self._terms.items())
        most = sum(f * prod([self._ranges[c][1] for c in cs]) for cs, f in self._terms.items())
        if most < low or least > high:
            raise Contradiction(f"a total of {least} to {most}")
        if low <= least and most <= high:
            return None
        terms = tuple((f, tuple(place[c] for c in cs)) for cs, f in self._terms.items())
        return Inequality(terms, low, high)

    def _may_leave(self, number: int) -> bool:
        low, high = self._free_range(self._columns[number])
        return low < self._ranges[number][0] or self._ranges[number][1] < high

    def _binds(self, factor: int, columns: Sequence[int], limits: Range) -> bool:
        least, most = factor, factor
        for column in columns:
            least *= self._ranges[column][0]
            most *= self._ranges[column][1]
        return least < limits[0] or most > limits[1]
