"""What sizes must satisfy, in terms of roots: the one specification of drawing and deciding.

The shapes of all tensors are solved and taken apart into monomials: a number times columns, where
a column is a root or an expression that cannot be multiplied out ("derived": x // 2, x + y). Ranges
are narrowed as far as intervals allow, and what they always satisfy is dropped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, prod

from kernelwright.ops.sizes import Expr, Linear, Product, Quotient, Size, Var, evaluate, variables
from kernelwright.synth.equations import Contradiction, Equations
from kernelwright.synth.recipe import Sizes

_NUM_PASSES = 6
"""Of narrowing, at most: ranges that stay too wide cost speed, never solutions."""

Range = tuple[int, int]
"""Both ends included."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """low <= factor * product(columns) <= high"""

    factor: int
    columns: tuple[int, ...]
    """A column that comes twice is squared."""
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class System:
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

    def holds(self, values: Sequence[int]) -> bool:
        """Whether these values of the roots, each in its range, are a solution."""
        assigned = dict(zip(self.roots, values, strict=True)).__getitem__
        columns = [*values, *(evaluate(expression, assigned) for expression in self.derived)]
        return (
            all(low <= n <= high for n, (low, high) in zip(columns, self.ranges, strict=True))
            and all(
                m.low <= m.factor * prod([columns[c] for c in m.columns]) <= m.high
                for m in self.monomials
            )
            and not any(evaluate(expression, assigned) for expression in self.residual)
        )


def system(shapes: Iterable[Sequence[Size]], equations: Equations, limits: Sizes) -> System:
    """What the sizes of tensors with these shapes must satisfy.

    Sizes that are constants need not reach `limits.low`; factors of products are positive.

    Raises:
        Contradiction: the ranges exclude every solution.
    """
    equations.settle()
    reader = _Reader(equations, limits)
    for shape in shapes:
        reader.read_shape(shape)
    for variable, value in equations.bound():
        divisor = equations.remainders.get(variable)
        reader.read_size(value, reader.size if divisor is None else (0, divisor - 1))
    for expression in equations.residual:
        reader.read_zero(equations.solved(expression))
    for _ in range(_NUM_PASSES):
        if not reader.narrow():
            break
    return reader.system()


class _Reader:
    def __init__(self, equations: Equations, limits: Sizes) -> None:
        self._equations = equations
        self.size = limits.low, limits.high
        self._elements = ceil(limits.elements[0]), floor(limits.elements[1])
        self._columns: list[Expr] = []
        self._ranges: list[Range] = []
        self._numbers: dict[Expr, int] = {}
        self._monomials: dict[tuple[int, tuple[int, ...]], Range] = {}
        self._zeros: list[Expr] = []
        self._sizes: dict[Size, tuple[int, tuple[int, ...]]] = {}
        """Sizes of shapes, as they were given -> factor and columns."""

    # Reading

    def read_shape(self, shape: Sequence[Size]) -> None:
        factor = 1
        columns: list[int] = []
        for size in shape:
            parts = self._sizes.get(size)
            if parts is None:
                parts = self.read_size(self._equations.solved(size), self.size)
                self._sizes[size] = parts
            factor *= parts[0]
            columns += parts[1]
        self._limit(factor, columns, self._elements)

    def read_size(self, size: Size, limits: Range) -> tuple[int, tuple[int, ...]]:
        """Ask that a size in terms of roots is within limits; its factor and columns."""
        if isinstance(size, int):
            if not min(limits[0], 1) <= size <= limits[1]:
                raise Contradiction(f"a size of {size}")
            return size, ()
        factor, columns = self._monomial(size)
        self._limit(factor, list(columns), limits)
        return factor, columns

    def read_zero(self, size: Size) -> None:
        if isinstance(size, Expr):
            for variable in variables(size):
                self._column(variable)
            self._zeros.append(size)
        elif size:
            raise Contradiction(f"{size} is not 0")

    def _monomial(self, size: Expr) -> tuple[int, tuple[int, ...]]:
        match size:
            case Product():
                parts = [self._monomial(factor) for factor in size.factors]
                return prod(f for f, _ in parts), tuple(c for _, columns in parts for c in columns)
            case Linear(terms=((term, factor),), constant=0) if factor > 0:
                inner, columns = self._monomial(term)
                return factor * inner, columns
        return 1, (self._column(size),)

    def _column(self, expression: Expr) -> int:
        number = self._numbers.get(expression)
        if number is None:
            if not isinstance(expression, Var):
                for variable in variables(expression):
                    self._column(variable)
                limits = self._interval(expression)
            elif expression in self._equations.remainders:
                limits = 0, self._equations.remainders[expression] - 1
            else:
                limits = self.size
            number = self._numbers[expression] = len(self._columns)
            self._columns.append(expression)
            self._ranges.append(limits)
        return number

    def _limit(self, factor: int, columns: list[int], limits: Range) -> None:
        if len(columns) < 2:
            low, high = -(-limits[0] // factor), limits[1] // factor
            if columns:
                self._intersect(columns[0], low, high)
            elif not low <= 1 <= high:
                raise Contradiction(f"{factor} where {limits[0]} to {limits[1]} is asked")
            return
        for column in columns:
            self._intersect(column, 1, limits[1])
        key = factor, tuple(sorted(columns))
        low, high = self._monomials.get(key, limits)
        self._monomials[key] = max(low, limits[0]), min(high, limits[1])

    # Narrowing

    def narrow(self) -> bool:
        """Bring what is asked of columns and products down to the roots; whether it helped."""
        before = list(self._ranges)
        for (factor, columns), limits in self._monomials.items():
            self._narrow_factors(factor, [self._columns[c] for c in columns], limits)
        for number, expression in enumerate(self._columns):
            if not isinstance(expression, Var):
                self._narrow(expression, self._ranges[number])
        for zero in self._zeros:
            self._narrow(zero, (0, 0))
        return self._ranges != before

    def _intersect(self, column: int, low: int, high: int) -> None:
        limits = max(low, self._ranges[column][0]), min(high, self._ranges[column][1])
        if limits[0] > limits[1]:
            raise Contradiction(f"no {self._columns[column]} from {low} to {high}")
        self._ranges[column] = limits

    def _narrow(self, size: Expr, limits: Range) -> None:
        low, high = limits
        match size:
            case Quotient():
                self._narrow(size.of, (low * size.divisor, (high + 1) * size.divisor - 1))
            case Product():
                self._narrow_factors(1, size.factors, limits)
            case Linear():
                intervals = [self._interval(term, factor) for term, factor in size.terms]
                least = sum(i[0] for i in intervals) + size.constant
                most = sum(i[1] for i in intervals) + size.constant
                for (term, factor), (bottom, top) in zip(size.terms, intervals, strict=True):
                    ends = low - (most - top), high - (least - bottom)
                    if factor < 0:
                        ends = -ends[1], -ends[0]
                    self._narrow(term, (-(-ends[0] // abs(factor)), ends[1] // abs(factor)))
        if size in self._numbers:
            self._intersect(self._numbers[size], low, high)

    def _narrow_factors(self, factor: int, factors: Sequence[Expr], limits: Range) -> None:
        intervals = [self._interval(part) for part in factors]
        least = factor * prod([low for low, _ in intervals])
        most = factor * prod([high for _, high in intervals])
        if least < 1 or (limits[0] <= least and most <= limits[1]):
            return  # Only positive factors, and only if there is something to gain
        for part, (low, high) in zip(factors, intervals, strict=True):
            self._narrow(part, (-(-limits[0] // (most // high)), limits[1] // (least // low)))

    def _interval(self, size: Expr, factor: int = 1) -> Range:
        """Ends that factor * size never exceeds; for columns, within what is asked of them."""
        low, high = self._free_interval(size)
        if size in self._numbers:
            asked = self._ranges[self._numbers[size]]
            low, high = max(low, asked[0]), min(high, asked[1])
        return (low * factor, high * factor) if factor > 0 else (high * factor, low * factor)

    def _free_interval(self, size: Expr) -> Range:
        match size:
            case Var():
                return self._ranges[self._numbers[size]]
            case Quotient():
                low, high = self._interval(size.of)
                return low // size.divisor, high // size.divisor
            case Product():
                low, high = 1, 1
                for factor in size.factors:
                    ends = self._interval(factor)
                    corners = [a * b for a in (low, high) for b in ends]
                    low, high = min(corners), max(corners)
                return low, high
            case Linear():
                lows, highs = zip(*(self._interval(term, f) for term, f in size.terms), strict=True)
                return sum(lows) + size.constant, sum(highs) + size.constant
        raise TypeError(f"{size!r} is no expression")

    # What is left

    def system(self) -> System:
        monomials = {
            key: limits for key, limits in self._monomials.items() if self._binds(*key, limits)
        }
        used = {column for _, columns in monomials for column in columns}
        variable = {n: c for n, c in enumerate(self._columns) if isinstance(c, Var)}
        roots = list(variable)
        derived = [
            n
            for n, c in enumerate(self._columns)
            if n not in variable and (n in used or self._may_leave(n))
        ]
        place = {number: i for i, number in enumerate(roots + derived)}
        remainders = self._equations.remainders
        return System(
            tuple(variable.values()),
            tuple(self._columns[n] for n in derived),
            tuple(self._ranges[n] for n in roots + derived),
            frozenset(place[n] for n, c in variable.items() if c in remainders),
            tuple(
                Monomial(factor, tuple(sorted(place[c] for c in columns)), *limits)
                for (factor, columns), limits in monomials.items()
            ),
            tuple(self._zeros),
        )

    def _may_leave(self, column: int) -> bool:
        low, high = self._free_interval(self._columns[column])
        return low < self._ranges[column][0] or self._ranges[column][1] < high

    def _binds(self, factor: int, columns: Sequence[int], limits: Range) -> bool:
        lows, highs = zip(*(self._ranges[c] for c in columns), strict=True)
        return not (limits[0] <= factor * prod(lows) and factor * prod(highs) <= limits[1])
