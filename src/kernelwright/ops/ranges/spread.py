"""How the elements of a tensor are spread: a range they keep in, their mean and deviation.

The range is a practical one: it holds for nearly every element of tensors of up to 2^24 elements,
as a normal draw stays within six deviations. Single operations carry ranges exactly (interval
arithmetic); sums use the mean and the deviation, since bounds that add up say nothing after three
matrix products. Rules of single operators are in the modules beside this one.
"""

from collections.abc import Callable
from math import inf, log, sqrt
from typing import NamedTuple

SIGMAS = 6.0
"""Deviations within which a normal draw, or a sum of many terms, practically stays."""
_NODE = sqrt(3.0)
"""Three-point Gauss-Hermite quadrature: nodes at the mean and this many deviations off it."""


class OutOfDomain(ValueError):
    """A function would be given values it is not defined for."""


class Spread(NamedTuple):
    low: float
    high: float
    mean: float
    std: float
    independent: bool = True
    """Elements know nothing of each other, so that their sum grows with the root of their number.
    Not so once a tensor was broadcast: what is added to a whole row adds up with it."""

    @property
    def largest(self) -> float:
        return max(-self.low, self.high)

    @property
    def rms(self) -> float:
        return sqrt(self.mean * self.mean + self.std * self.std)


ANYTHING = Spread(-1e30, 1e30, 0.0, 1e20, False)
"""Of values nothing is known of. The deviation is far inside, so that no norm looks bounded."""


def point(value: float) -> Spread:
    return Spread(value, value, value, 0.0)


def normal(mean: float, std: float) -> Spread:
    return Spread(mean - SIGMAS * std, mean + SIGMAS * std, mean, std)


def uniform(low: float, high: float) -> Spread:
    return Spread(low, high, (low + high) / 2, (high - low) / sqrt(12.0))


def image(function: Callable[[float], float], v: Spread, *turns: float) -> Spread:
    """Of a function that rises or falls between `turns`, where its extremes may lie."""
    low, high, mean, std, independent = v
    left, right = function(max(low, mean - _NODE * std)), function(min(high, mean + _NODE * std))
    middle = function(mean)
    ends = [function(low), function(high), *(function(x) for x in turns if low < x < high)]
    average = (left + right + 4 * middle) / 6
    square = (left * left + right * right + 4 * middle * middle) / 6 - average * average
    return Spread(
        min(ends), max(ends), average, sqrt(square) if 0 < square < inf else 0.0, independent
    )


# Arithmetic of elements that are paired one by one


def add(a: Spread, b: Spread) -> Spread:
    return Spread(
        a.low + b.low,
        a.high + b.high,
        a.mean + b.mean,
        sqrt(a.std * a.std + b.std * b.std),
        a.independent and b.independent,
    )


def scale(v: Spread, factor: float) -> Spread:
    one, other = v.low * factor, v.high * factor
    low, high = (one, other) if factor >= 0 else (other, one)
    return Spread(low, high, v.mean * factor, v.std * abs(factor), v.independent)


def shift(v: Spread, by: float) -> Spread:
    return Spread(v.low + by, v.high + by, v.mean + by, v.std, v.independent)


def subtract(a: Spread, b: Spread) -> Spread:
    return add(a, scale(b, -1.0))


def multiply(a: Spread, b: Spread) -> Spread:
    corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    one, other = a.std * a.std, b.std * b.std
    variance = one * other + a.mean * a.mean * other + b.mean * b.mean * one
    return Spread(
        min(corners),
        max(corners),
        a.mean * b.mean,
        sqrt(variance),
        a.independent and b.independent,
    )


def reciprocal(v: Spread) -> Spread:
    """Raises: OutOfDomain: 0 is in range."""
    if v.low <= 0 <= v.high:
        raise OutOfDomain(f"1 / x with x from {v.low:.3g} to {v.high:.3g}")
    return image(lambda x: 1 / x, v)


def divide(a: Spread, b: Spread) -> Spread:
    """Raises: OutOfDomain: 0 is in b's range."""
    return multiply(a, reciprocal(b))


def square(v: Spread) -> Spread:
    return image(lambda x: x * x, v, 0.0)


def absolute(v: Spread) -> Spread:
    return image(abs, v, 0.0)


def rectify(v: Spread) -> Spread:
    return image(lambda x: max(x, 0.0), v)


# Elements of several tensors side by side


def mix(*parts: Spread) -> Spread:
    """Any element may come from any part, in equal shares."""
    count = len(parts)
    mean = sum(p.mean for p in parts) / count
    second = sum(p.mean * p.mean + p.std * p.std for p in parts) / count
    return Spread(
        min(p.low for p in parts),
        max(p.high for p in parts),
        mean,
        sqrt(max(second - mean * mean, 0.0)),
        all(p.independent for p in parts),
    )


def with_zeros(v: Spread) -> Spread:
    return mix(v, point(0.0))


# Many elements into one


def total(v: Spread, count: float) -> Spread:
    """The sum of `count` elements.

    With few, one far element may decide: the rest is then at its mean.
    """
    mean = count * v.mean
    std = v.std * (sqrt(count) if v.independent else count)
    rest = (count - 1) * v.mean
    low = min(mean - SIGMAS * std, rest + v.low)
    high = max(mean + SIGMAS * std, rest + v.high)
    return Spread(max(count * v.low, low), min(count * v.high, high), mean, std, v.independent)


def average(v: Spread, count: float) -> Spread:
    return scale(total(v, count), 1 / count) if count > 1 else v


def contract(a: Spread, b: Spread, count: float) -> Spread:
    """The sum of `count` products.

    Signs drawn afresh for each term on one side are enough for terms to cancel.
    """
    product = multiply(a, b)
    cancels = product.independent or _has_fresh_signs(a) or _has_fresh_signs(b)
    summed = total(product._replace(independent=cancels), count)
    return summed._replace(independent=product.independent)


def _has_fresh_signs(v: Spread) -> bool:
    return v.independent and abs(v.mean) < 0.1 * v.std


def extreme(v: Spread, count: float, sign: int) -> Spread:
    """The largest (sign 1) or smallest (-1) of `count` elements.

    Mean and deviation are those of normal values, to a few percent from 1 to 10^7 of them.
    """
    if count <= 1:
        return v
    logarithm = log(count)
    deviations = sqrt(2 * max(logarithm - log(2 * sqrt(logarithm)), 0.0))
    mean = v.mean + sign * deviations * v.std
    std = v.std / (1 + 0.45 * deviations)
    return Spread(v.low, v.high, min(max(mean, v.low), v.high), std, v.independent)
