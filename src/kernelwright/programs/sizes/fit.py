"""Finds numbers as functions of sizes: from a program's attributes at some sizes to all sizes.

Each function agrees with all examples. Examples are no proof, so the judge compares the whole
program at other sizes.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import Any

Sizes = Mapping[str, int]
"""Name of a size, as "batch" -> its value."""
MAX_DIVISOR = 64
"""The largest divisor that is tried: strides of layers multiply, 2 * 2 * 2 * 2 * 2 = 32."""

MIN_QUOTIENTS = 3
"""Distinct quotients in the examples of a division: many divisions agree on two."""


class SpelledInt(int):
    """An integer whose text is an expression of sizes: 48, as "x0.shape[0] * 12"."""

    text: str

    def __new__(cls, value: int, text: str) -> "SpelledInt":
        spelled = super().__new__(cls, value)
        spelled.text = text
        return spelled

    def __repr__(self) -> str:
        return self.text


class SpelledFloat(float):
    """A number whose text is an expression of sizes: 0.25, as "1.0 / x0.shape[0]"."""

    text: str

    def __new__(cls, value: float, text: str) -> "SpelledFloat":
        spelled = super().__new__(cls, value)
        spelled.text = text
        return spelled

    def __repr__(self) -> str:
        return self.text


def fitted(values: Sequence[Any], sizes: Sequence[Sizes], texts: Mapping[str, str]) -> Any:
    """The first value, as a constant or as a number whose text is an expression of sizes.

    Args:
        values: the values of one attribute, one for each of `sizes`. Tuples are fitted by item.
        texts: name of a size -> the expression that reads it.

    Raises:
        ValueError: no function of sizes gives the values.
    """
    first = values[0]
    if all(type(value) is type(first) and same(value, first) for value in values):
        return first
    if all(isinstance(value, tuple) and len(value) == len(first) for value in values):
        return tuple([fitted(items, sizes, texts) for items in zip(*values, strict=True)])
    kinds = {type(value) for value in values}
    if kinds == {int} and (text := next(_int_texts(values, sizes, texts), None)):
        return SpelledInt(first, text)
    if kinds == {float} and (text := next(_float_texts(values, sizes, texts), None)):
        return SpelledFloat(first, text)
    raise ValueError(f"{', '.join(map(repr, values))} is no known function of the sizes")


def same(one: Any, other: Any) -> bool:
    """Equality in which NaN equals NaN."""
    return bool(one == other or (one != one and other != other))


def _int_texts(
    values: Sequence[int], sizes: Sequence[Sizes], texts: Mapping[str, str]
) -> Iterator[str]:
    """Expressions that give the values, the simplest first."""
    names = sorted(texts)
    for name in names:
        yield from _line(values, [size[name] for size in sizes], texts[name])
    for one, other in combinations_with_replacement(names, 2):
        products = [size[one] * size[other] for size in sizes]
        yield from _line(values, products, f"{texts[one]} * {texts[other]}")
    for one, other in combinations(names, 2):
        yield from _plane(values, sizes, (one, other), texts)
    for name in names:
        yield from _quotient(values, [size[name] for size in sizes], texts[name])


def _line(values: Sequence[int], points: Sequence[int], text: str) -> Iterator[str]:
    """ "text * a + b", where integers a and b give all values."""
    other = next((i for i, point in enumerate(points) if point != points[0]), None)
    if other is None:
        return
    slope = Fraction(values[other] - values[0], points[other] - points[0])
    shift = values[0] - slope * points[0]
    if slope.denominator == 1 and slope != 0 and _holds(values, points, slope, shift):
        yield _affine(text, int(slope), int(shift))


def _holds(
    values: Sequence[int], points: Sequence[int], slope: Fraction | int, shift: Fraction | int
) -> bool:
    return all(slope * point + shift == value for value, point in zip(values, points, strict=True))


def _affine(text: str, slope: int, shift: int) -> str:
    scaled = text if slope == 1 else f"{text} * {slope}"
    return scaled if shift == 0 else f"{scaled} {'+' if shift > 0 else '-'} {abs(shift)}"


def _plane(
    values: Sequence[int],
    sizes: Sequence[Sizes],
    names: tuple[str, str],
    texts: Mapping[str, str],
) -> Iterator[str]:
    """ "a * one + b * other + c": a cache of one size and new rows of another, say."""
    one, other = ([size[name] for size in sizes] for name in names)
    for i, j in combinations(range(1, len(values)), 2):
        rows = [(one[k] - one[0], other[k] - other[0], values[k] - values[0]) for k in (i, j)]
        (a, b, u), (c, d, v) = rows
        determinant = a * d - b * c
        if determinant == 0:
            continue
        slopes = Fraction(u * d - b * v, determinant), Fraction(a * v - u * c, determinant)
        # Three points determine the plane, so other points cannot give other slopes.
        if any(slope.denominator != 1 for slope in slopes):
            return
        rest = [value - int(slopes[1]) * point for value, point in zip(values, other, strict=True)]
        shift = rest[0] - slopes[0] * one[0]
        if _holds(rest, one, slopes[0], shift):
            first, second = (
                _affine(texts[name], int(slope), 0)
                for name, slope in zip(names, slopes, strict=True)
            )
            yield _affine(f"{first} + {second}", 1, int(shift))
        return


def _quotient(values: Sequence[int], points: Sequence[int], text: str) -> Iterator[str]:
    """ "(text + b) // d * a + c": the size of a convolution's result, with further factors."""
    for divisor in range(2, MAX_DIVISOR + 1):
        for shift in range(divisor):
            quotients = [(point + shift) // divisor for point in points]
            # A line goes through any two points. Only a third quotient can contradict a wrong
            # divisor.
            if len(set(quotients)) < min(MIN_QUOTIENTS, len(set(points))):
                continue
            inside = f"({text} + {shift})" if shift else text
            if line := next(_line(values, quotients, f"{inside} // {divisor}"), None):
                yield line


_FLOAT_FORMS: tuple[tuple[Callable[[float, int], float], str], ...] = (
    (operator.mul, "{} * {}"),
    (operator.truediv, "{} / {}"),
    (lambda factor, point: factor / math.sqrt(point), "{} / {} ** 0.5"),
)


def _float_texts(
    values: Sequence[float], sizes: Sequence[Sizes], texts: Mapping[str, str]
) -> Iterator[str]:
    """A size as a float, a number divided by a size, or by the square root of a size."""
    for name in sorted(texts):
        points = [size[name] for size in sizes]
        for compute, operation in _FLOAT_FORMS:
            for factor in _factors(values[0], points[0]):
                if all(compute(factor, p) == v for p, v in zip(points, values, strict=True)):
                    yield operation.format(repr(factor), texts[name])


def _factors(value: float, point: int) -> Iterator[float]:
    """Factors that may give the value at the point, whole numbers first: products of floats
    round."""
    for exact in (value / point, value * point, value * math.sqrt(point)):
        yield float(round(exact))
        yield exact
