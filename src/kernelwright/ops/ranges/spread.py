"""The spread of the elements of a tensor: the range that holds them, their mean and deviation.

The range is a practical one: it holds for nearly every element of tensors of up to 2^24 elements,
as a normal draw stays within six deviations. Single operations carry ranges exactly (interval
arithmetic); sums use the mean and the deviation, since bounds that add up say nothing after three
matrix products. Rules of single operators are in the modules beside this one.
"""

from collections.abc import Callable
from math import erf, exp, inf, log, pi, sqrt
from typing import NamedTuple

SIGMAS = 6.0
"""Deviations within which a normal draw, or a sum of many terms, practically stays."""
_NODE = sqrt(3.0)
"""Three-point Gauss-Hermite quadrature: nodes at the mean and this many deviations off it."""


class OutOfDomain(ValueError):
    """The range of an operand holds values for which a function is not defined."""


class Spread(NamedTuple):
    """The range, the mean and the standard deviation of a tensor's elements, with further facts."""

    low: float
    high: float
    mean: float
    std: float
    independent: bool = True
    """Elements know nothing of each other, so that their sum grows with the root of their number.
    Not so once a tensor was broadcast: what is added to a whole row adds up with it."""
    zeros: float = 0.0
    """Share of elements that are 0 exactly, as `relu` leaves many and a normal draw none. Of
    whole numbers `share_of_zeros` follows from mean and deviation instead."""
    is_whole: bool = False
    """Elements are whole numbers: truth values, indices, what was rounded."""

    @property
    def largest(self) -> float:
        """The largest absolute value in the range."""
        return max(-self.low, self.high)

    @property
    def rms(self) -> float:
        """The root of the mean square."""
        return sqrt(self.mean * self.mean + self.std * self.std)

    @property
    def share_of_zeros(self) -> float:
        """The share of elements that are exactly 0, estimated for whole numbers."""
        if not self.low <= 0 <= self.high:
            return 0.0
        if not self.is_whole:
            return self.zeros
        if self.std == 0:
            return float(self.mean == 0)
        if self.low == 0 and self.high == 1:
            return 1 - self.mean
        if self.low >= -1 and self.high <= 1:  # the square is 1 where the number is not 0
            return max(0.0, 1 - self.rms * self.rms)
        # The density of a normal distribution at 0 is about the share of the whole number 0.
        distance = self.mean / self.std
        return min(1.0, exp(-distance * distance / 2) / (self.std * sqrt(2 * pi)))


ANYTHING = Spread(-1e30, 1e30, 0.0, 1e20, False, 0.5)
"""The range of values of which nothing is known. The deviation is far inside, so that no norm looks
bounded."""


def point(value: float) -> Spread:
    """The spread of a tensor whose elements all have one value."""
    return Spread(value, value, value, 0.0, True, float(value == 0), float(value).is_integer())


def coin(share: float, *, independent: bool = True) -> Spread:
    """The spread of a tensor of 0 and 1, with 1 in this share of the elements."""
    share = min(max(share, 0.0), 1.0)
    return Spread(0.0, 1.0, share, sqrt(share * (1 - share)), independent, is_whole=True)


def normal(mean: float, std: float) -> Spread:
    """The spread of draws from a normal distribution."""
    return Spread(mean - SIGMAS * std, mean + SIGMAS * std, mean, std)


def uniform(low: float, high: float) -> Spread:
    """The spread of draws from a uniform distribution."""
    return Spread(low, high, (low + high) / 2, (high - low) / sqrt(12.0))


_PROBES = (-1.15, -0.32, 0.32, 1.15)
"""Means of the four quarters of a normal draw, in deviations."""


def image(function: Callable[[float], float], v: Spread, *turns: float) -> Spread:
    """The spread of function(x) for the elements x of a tensor.

    Mean and deviation are by three-point Gauss-Hermite quadrature, as if elements were normal.

    Args:
        function: monotonic between neighbouring `turns`.
        turns: arguments at which the function turns. With the ends, they give the range.

    Raises:
        OutOfDomain: `function` raises it for an argument in the range.
    """
    # Some rules, such as that of sin, cut the range and leave the mean outside.
    low, high, std = v.low, v.high, v.std
    mean = min(max(v.mean, low), high)
    left, right = function(max(low, mean - _NODE * std)), function(min(high, mean + _NODE * std))
    middle = function(mean)
    ends = [function(low), function(high), *(function(x) for x in turns if low < x < high)]
    average = (left + right + 4 * middle) / 6
    square = (left * left + right * right + 4 * middle * middle) / 6 - average * average
    return Spread(
        min(ends),
        max(ends),
        average,
        sqrt(square) if 0 < square < inf else 0.0,
        v.independent,
        _zeros_of_image(function, v),
        v.is_whole and all(x < inf and float(x).is_integer() for x in map(abs, ends)),
    )


def _zeros_of_image(function: Callable[[float], float], v: Spread) -> float:
    """The share of elements that the function maps to 0.

    These are zeros that the function keeps, and a part of the other elements if the function is
    flat at 0.
    """
    before = v.share_of_zeros
    kept = before if before and function(0.0) == 0 else 0.0
    probes = (min(max(v.mean + at * v.std, v.low), v.high) for at in _PROBES)
    flat = sum(x != 0 and function(x) == 0 for x in probes) / len(_PROBES)
    return kept + (1 - before) * flat


# Arithmetic of elements that are paired one by one


def add(a: Spread, b: Spread) -> Spread:
    """The spread of a + b, as if a and b were independent of each other."""
    return Spread(
        a.low + b.low,
        a.high + b.high,
        a.mean + b.mean,
        sqrt(a.std * a.std + b.std * b.std),
        a.independent and b.independent,
        a.zeros * b.zeros,
        a.is_whole and b.is_whole,
    )


def scale(v: Spread, factor: float) -> Spread:
    """The spread of v * factor."""
    one, other = v.low * factor, v.high * factor
    low, high = (one, other) if factor >= 0 else (other, one)
    return Spread(
        low,
        high,
        v.mean * factor,
        v.std * abs(factor),
        v.independent,
        v.zeros if factor else 1.0,
        v.is_whole and float(factor).is_integer(),
    )


def shift(v: Spread, by: float) -> Spread:
    """The spread of v + by. A number `by` other than 0 leaves no share of zeros."""
    return Spread(
        v.low + by,
        v.high + by,
        v.mean + by,
        v.std,
        v.independent,
        0.0 if by else v.zeros,
        v.is_whole and float(by).is_integer(),
    )


def subtract(a: Spread, b: Spread) -> Spread:
    """The spread of a - b."""
    return add(a, scale(b, -1.0))


def multiply(a: Spread, b: Spread) -> Spread:
    """The spread of a * b, as if a and b were independent of each other."""
    corners = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    one, other = a.std * a.std, b.std * b.std
    variance = one * other + a.mean * a.mean * other + b.mean * b.mean * one
    return Spread(
        min(corners),
        max(corners),
        a.mean * b.mean,
        sqrt(variance),
        a.independent and b.independent,
        1 - (1 - a.share_of_zeros) * (1 - b.share_of_zeros),
        a.is_whole and b.is_whole,
    )


def reciprocal(v: Spread) -> Spread:
    """The spread of 1 / v.

    Raises:
        OutOfDomain: 0 is in the range of v.
    """
    if v.low <= 0 <= v.high:
        raise OutOfDomain(f"1 / x with x from {v.low:.3g} to {v.high:.3g}")
    return image(lambda x: 1 / x, v)


def divide(a: Spread, b: Spread) -> Spread:
    """The spread of a / b.

    Raises:
        OutOfDomain: 0 is in the range of b.
    """
    return multiply(a, reciprocal(b))


def square(v: Spread) -> Spread:
    """The spread of v * v."""
    return image(lambda x: x * x, v, 0.0)


def absolute(v: Spread) -> Spread:
    """The spread of abs(v)."""
    return image(abs, v, 0.0)


def share_below(a: Spread, b: Spread) -> float:
    """The share of pairs in which the element of `a` is less than that of `b`, both as normal."""
    gap = sqrt(a.std * a.std + b.std * b.std)
    if gap == 0:
        return float(a.mean < b.mean)
    return 0.5 * (1 + erf((b.mean - a.mean) / gap * sqrt(0.5)))


def share_equal(a: Spread, b: Spread) -> float:
    """The share of pairs of equal elements. Floats are equal only where both are 0."""
    if a.is_whole and b.is_whole:
        return subtract(a, b).share_of_zeros
    return a.share_of_zeros * b.share_of_zeros


def rectify(v: Spread) -> Spread:
    """The spread of max(v, 0)."""
    return image(lambda x: max(x, 0.0), v)


# Elements of several tensors side by side


def mix(*parts: Spread) -> Spread:
    """The spread of a tensor whose elements come from all parts, in equal shares."""
    count = len(parts)
    mean = sum(p.mean for p in parts) / count
    second = sum(p.mean * p.mean + p.std * p.std for p in parts) / count
    return Spread(
        min(p.low for p in parts),
        max(p.high for p in parts),
        mean,
        sqrt(max(second - mean * mean, 0.0)),
        all(p.independent for p in parts),
        sum(p.share_of_zeros for p in parts) / count,
        all(p.is_whole for p in parts),
    )


def with_zeros(v: Spread) -> Spread:
    """The spread of a tensor in which half of the elements of `v` became 0."""
    return mix(v, point(0.0))


# Many elements into one


def total(v: Spread, count: float) -> Spread:
    """The spread of the sum of `count` elements.

    The deviation grows with the root of `count` if elements are independent, else with `count`.
    """
    mean = count * v.mean
    std = v.std * (sqrt(count) if v.independent else count)
    # In a sum of few elements a single far element decides, so six deviations are not enough.
    rest = (count - 1) * v.mean
    low = min(mean - SIGMAS * std, rest + v.low)
    high = max(mean + SIGMAS * std, rest + v.high)
    return Spread(
        max(count * v.low, low),
        min(count * v.high, high),
        mean,
        std,
        v.independent,
        v.zeros**count,
        v.is_whole,
    )


def average(v: Spread, count: float) -> Spread:
    """The spread of the mean of `count` elements."""
    return scale(total(v, count), 1 / count) if count > 1 else v


def contract(a: Spread, b: Spread, count: float) -> Spread:
    """The spread of the sum of `count` products of elements of a and b."""
    # Random signs on one side are enough for terms to cancel, whatever the other side is.
    product = multiply(a, b)
    cancels = product.independent or _has_fresh_signs(a) or _has_fresh_signs(b)
    summed = total(product._replace(independent=cancels), count)
    return summed._replace(independent=product.independent)


def _has_fresh_signs(v: Spread) -> bool:
    """Whether elements are independent and about as often negative as positive."""
    return v.independent and abs(v.mean) < 0.1 * v.std


def extreme(v: Spread, count: float, sign: int) -> Spread:
    """The spread of the largest (sign 1) or smallest (-1) of `count` elements that are spread like
    `v`.

    Mean and deviation assume normal values, with an error of a few percent from 1 to 10^7 elements.
    Whole numbers in a range below `count` count as equally likely; of two numbers, the mean gives
    the shares.
    """
    if count <= 1:
        return v
    if v.is_whole and 0 < v.high - v.low < count:
        return _last_of_few(v, count, sign)
    logarithm = log(count)
    deviations = sqrt(2 * max(logarithm - log(2 * sqrt(logarithm)), 0.0))
    mean = v.mean + sign * deviations * v.std
    std = v.std / (1 + 0.45 * deviations)
    # If 0 is the end of the range, a single zero is the extreme; if not, all must be 0.
    is_at_end = v.low == 0 if sign < 0 else v.high == 0
    zeros = 1 - (1 - v.zeros) ** count if is_at_end else v.zeros**count
    return Spread(
        v.low,
        v.high,
        min(max(mean, v.low), v.high),
        std,
        v.independent,
        zeros,
        v.is_whole,
    )


def _last_of_few(v: Spread, count: float, sign: int) -> Spread:
    """The same for whole numbers of which there are fewer than `count` in the range."""
    width = v.high - v.low
    share = (v.mean - v.low if sign > 0 else v.high - v.mean) if width == 1 else 1 / (width + 1)
    reached = 1 - (1 - min(max(share, 0.0), 1.0)) ** count
    end, before = (v.high, v.high - 1) if sign > 0 else (v.low, v.low + 1)
    mean = end * reached + before * (1 - reached)
    return v._replace(mean=mean, std=sqrt(reached * (1 - reached)))
