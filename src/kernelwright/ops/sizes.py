"""Sizes that are not known yet: integer expressions over variables, in one normal form.

A `Size` is an int or an `Expr`. Expressions are built with Python's operators and come out normal:
equal sums and multiples of the same terms are equal objects, and what is constant is an int. The
forms of operators (`ops.forms`) are written in them; `synth` solves equations between them.

A shape rule runs on such sizes as on ints, so no rule is written twice. Its questions are answered
for all values: two expressions are equal if their normal forms are. An expression is larger if it
is larger for all large variables. If the answer depends on the values, ValueError is raised.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from math import prod
from operator import mul
from typing import Any, ClassVar, Self, TypeAlias

Size: TypeAlias = "int | Expr"


class Expr:
    """An integer that depends on variables. Subclasses are immutable and hashable.

    Comparisons hold for large values of the variables, and raise ValueError if values decide.
    """

    __slots__ = ()

    def __add__(self, other: Size) -> Size:
        if isinstance(other, int):
            terms, constant = _ordered_terms(self)
            return _ordered(terms, constant + other)
        return _sum(self, other, 1)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + -other if isinstance(other, int) else _sum(self, other, -1)

    def __rsub__(self, other: Size) -> Size:
        return other + self * -1

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            if other == 0:
                return 0
            terms, constant = _ordered_terms(self)
            return _ordered(
                tuple([(term, factor * other) for term, factor in terms]), constant * other
            )
        (one, left), (two, right) = _split(self), _split(other)
        factors = tuple(sorted((*_factors(left), *_factors(right)), key=repr))
        return SizeProduct(factors) * (one * two)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Size) -> Size:
        """The quotient, rounded down; terms whose factor is a multiple of the divisor are exact.

        Raises:
            ValueError: the divisor is an expression that is no factor of this one.
        """
        if isinstance(divisor, Expr):
            return _ratio(self, divisor)
        if divisor < 1:
            raise ValueError(f"sizes are divided by positive numbers, not {divisor}")
        terms, constant = _parts(self)
        # Terms that the divisor divides leave the quotient, so equal sizes get equal objects.
        whole = {t: f // divisor for t, f in terms.items() if f % divisor == 0}
        rest = {t: f for t, f in terms.items() if t not in whole}
        outside = _linear(whole, constant // divisor)
        if not rest:
            return outside
        return outside + Quotient(_linear(rest, constant % divisor), divisor)  # type: ignore[arg-type]

    def __mod__(self, divisor: Size) -> int:
        """The remainder, if it is the same for all values of the variables.

        Raises:
            ValueError: values decide the remainder.
        """
        if isinstance(divisor, Expr):
            _ratio(self, divisor)
            return 0
        terms, constant = _parts(self)
        if any(factor % divisor for factor in terms.values()):
            raise ValueError(f"values decide whether {divisor} divides {self}")
        return constant % divisor

    def __lt__(self, other: Size) -> bool:
        return _sign(self - other) < 0

    def __le__(self, other: Size) -> bool:
        return _sign(self - other) <= 0

    def __gt__(self, other: Size) -> bool:
        return _sign(self - other) > 0

    def __ge__(self, other: Size) -> bool:
        return _sign(self - other) >= 0


class Var(Expr):
    """A variable. One name is one object, so equality and hashing need no Python call."""

    __slots__ = ("name",)
    name: str
    _known: ClassVar[dict[str, Self]] = {}

    def __new__(cls, name: str) -> Self:
        known = cls._known.get(name)
        if known is None:
            known = super().__new__(cls)
            known.name = name
            cls._known[name] = known
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling must return the one object of this name, not a second one.
        return Var, (self.name,)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Quotient(Expr):
    """`of` // `divisor`, rounded down."""

    of: Expr
    divisor: int

    def __repr__(self) -> str:
        return f"({self.of} // {self.divisor})"


@dataclass(frozen=True, slots=True, repr=False)
class SizeProduct(Expr):
    """A product of expressions without a numeric factor."""

    factors: tuple[Expr, ...]
    """Two or more, in order of their text."""

    def __repr__(self) -> str:
        return " * ".join(map(repr, self.factors))


@dataclass(frozen=True, slots=True, repr=False)
class Linear(Expr):
    """sum(factor * term) + constant; a single term has a factor or a constant beside it."""

    terms: tuple[tuple[Expr, int], ...]
    """(term, factor other than 0), in order of the terms' text."""
    constant: int

    def __repr__(self) -> str:
        terms = (f"{factor} * {term}" for term, factor in self.terms)
        return f"({' + '.join((*terms, str(self.constant)))})"


# Normal form


def _linear(terms: Mapping[Expr, int], constant: int) -> Size:
    """The normal form of sum(factor * term) + constant: an int, the bare term, or a Linear."""
    kept = [item for item in terms.items() if item[1]]
    if len(kept) > 1:
        kept.sort(key=lambda item: repr(item[0]))
    return _ordered(tuple(kept), constant)


def _ordered(terms: tuple[tuple[Expr, int], ...], constant: int) -> Size:
    """The normal form of terms that are in order and have no factor 0."""
    if not terms:
        return constant
    if len(terms) == 1 and terms[0][1] == 1 and constant == 0:
        return terms[0][0]
    return Linear(terms, constant)


def _ordered_terms(size: Expr) -> tuple[tuple[tuple[Expr, int], ...], int]:
    """(terms in order, constant) of a size."""
    return (size.terms, size.constant) if isinstance(size, Linear) else (((size, 1),), 0)


def _parts(size: Size) -> tuple[dict[Expr, int], int]:
    """({term: factor}, constant) of a size."""
    if isinstance(size, int):
        return {}, size
    if isinstance(size, Linear):
        return dict(size.terms), size.constant
    return {size: 1}, 0


def _sum(a: Expr, b: Expr, times: int) -> Size:
    """a + times * b."""
    terms, constant = _parts(a)
    more, added = _ordered_terms(b)
    for term, factor in more:
        terms[term] = terms.get(term, 0) + times * factor
    return _linear(terms, constant + times * added)


def _split(size: Expr) -> tuple[int, Expr]:
    """(number, expression) whose product the size is; the number is 1 unless the size has one."""
    if isinstance(size, Linear) and len(size.terms) == 1 and size.constant == 0:
        return size.terms[0][1], size.terms[0][0]
    return 1, size


def _factors(size: Expr) -> tuple[Expr, ...]:
    return size.factors if isinstance(size, SizeProduct) else (size,)


def _ratio(size: Expr, divisor: Expr) -> Size:
    """`size` without the factors of `divisor`.

    Raises:
        ValueError: the divisor has a factor that the size does not have.
    """
    (one, left), (other, right) = _split(size), _split(divisor)
    kept = list(_factors(left))
    for factor in _factors(right):
        if factor not in kept:
            raise ValueError(f"values decide whether {divisor} divides {size}")
        kept.remove(factor)
    if one % other:
        raise ValueError(f"values decide whether {divisor} divides {size}")
    return reduce(mul, kept, one // other)


def _sign(size: Size) -> int:
    """The sign of a size when all variables are large: 1 or -1. A constant is returned as it is.

    Raises:
        ValueError: terms have different signs, so that values decide.
    """
    if isinstance(size, int):
        return size
    if isinstance(size, Var):
        return 1
    if isinstance(size, Quotient):
        return _sign(size.of)
    if isinstance(size, SizeProduct):
        return prod(map(_sign, size.factors))
    signs = {_sign(term) * (1 if factor > 0 else -1) for term, factor in _parts(size)[0].items()}
    if len(signs) > 1:
        raise ValueError(f"values decide whether {size} is above 0")
    return signs.pop()


# Reading


def linear(size: Size) -> tuple[dict[Expr, int], int]:
    """({term: factor}, constant) of a size, whose sum of factor * term + constant is the size."""
    return _parts(size)


def variables(size: Size) -> tuple[Var, ...]:
    """The variables of a size; a variable may appear more than once."""
    if isinstance(size, Var):
        return (size,)
    return () if isinstance(size, int) else _inner_variables(size)


@lru_cache(1 << 16)
def _inner_variables(size: Expr) -> tuple[Var, ...]:
    match size:
        case Quotient():
            return variables(size.of)
        case SizeProduct():
            return tuple(chain.from_iterable(map(variables, size.factors)))
        case Linear():
            return tuple(chain.from_iterable(variables(term) for term, _ in size.terms))
    raise TypeError(size)


def evaluate(size: Size, value: Callable[[Var], Any]) -> Any:
    """The value of a size expression. `value` gives each variable an int, a NumPy array or a
    size."""
    match size:
        case Var():
            return value(size)
        case Quotient():
            return evaluate(size.of, value) // size.divisor
        case SizeProduct():
            return reduce(mul, (evaluate(factor, value) for factor in size.factors))
        case Linear():
            total: Any = size.constant
            for term, factor in size.terms:
                total = total + evaluate(term, value) * factor
            return total
    return size
