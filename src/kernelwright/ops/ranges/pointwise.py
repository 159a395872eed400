"""Spreads of pointwise operators of two operands and more."""

from collections.abc import Callable
from functools import partial
from math import erf, exp, floor, log, pi, sqrt

from kernelwright.ops.operator import DTYPE_BYTES
from kernelwright.ops.ranges.functions import INFINITE, clipped, exp_of, negation, truth
from kernelwright.ops.ranges.rule_inputs import Rule, RuleInputs
from kernelwright.ops.ranges.spread import (
    OutOfDomain,
    Spread,
    add,
    coin,
    divide,
    image,
    mix,
    multiply,
    point,
    reciprocal,
    scale,
    share_below,
    share_equal,
    subtract,
)


def _less(a: Spread, b: Spread, or_equal: bool) -> Spread:
    """The spread of a < b, or of a <= b."""
    if a.high < b.low or (or_equal and a.high == b.low):
        return point(1.0)
    if a.low > b.high or (not or_equal and a.low == b.high):
        return point(0.0)
    return coin(share_below(a, b))


def _equal(a: Spread, b: Spread) -> Spread:
    if a.high < b.low or b.high < a.low:
        return point(0.0)
    return point(1.0) if a.low == a.high == b.low == b.high else coin(share_equal(a, b))


def _both(a: Spread, b: Spread) -> Spread:
    one, other = truth(a), truth(b)
    low, high = min(one.low, other.low), min(one.high, other.high)
    return coin(one.mean * other.mean)._replace(low=low, high=high)


def _either(a: Spread, b: Spread) -> Spread:
    return negation(_both(negation(truth(a)), negation(truth(b))))


def _one_of(a: Spread, b: Spread) -> Spread:
    one, other = truth(a), truth(b)
    if one.low == one.high and other.low == other.high:
        return point(float(one.low != other.low))
    return coin(one.mean * (1 - other.mean) + other.mean * (1 - one.mean))


def _bits(a: Spread, b: Spread) -> Spread:
    """The spread of a bitwise operation on integers, which needs no more bits than its operands."""
    limit = 1.0
    while limit <= max(a.largest, b.largest):
        limit *= 2
    low = 0.0 if min(a.low, b.low) >= 0 else -limit
    return Spread(low, limit - 1, (low + limit - 1) / 2, limit / 4, is_whole=True)


# Several operands


def _pairwise(function: Callable[[Spread, Spread], Spread], second: str = "other") -> Rule:
    """The rule of a function of two operands, which may broadcast."""

    def rule(g: RuleInputs) -> Spread:
        result = function(g.of(), g.of(second))
        return _after_broadcast(g, result, "input", second)

    return rule


def _after_broadcast(g: RuleInputs, spread: Spread, *names: str) -> Spread:
    """The spread, not independent if one of the operands `names` was broadcast."""
    # Elements that share one number do not cancel in a later sum.
    wanted = g.results[0].numel
    widened = any(g.has(name) and g[name].numel < wanted for name in names)
    return spread._replace(independent=False) if widened else spread


def _sum_rule(g: RuleInputs) -> Spread:
    return _after_broadcast(g, add(g.of(), scale(g.of("other"), g["alpha"])), "input", "other")


def _sub_rule(g: RuleInputs) -> Spread:
    return _after_broadcast(g, add(g.of(), scale(g.of("other"), -g["alpha"])), "input", "other")


def _rsub_rule(g: RuleInputs) -> Spread:
    return _after_broadcast(g, subtract(g.of("other"), scale(g.of(), g["alpha"])), "input", "other")


def _div_rule(g: RuleInputs) -> Spread:
    quotient = divide(g.of(), g.of("other"))
    if g["rounding_mode"] is not None:
        quotient = image(floor if g["rounding_mode"] == "floor" else int, quotient)
    return _after_broadcast(g, quotient, "input", "other")


def _remainder(g: RuleInputs) -> Spread:
    """The spread of remainder: between 0 and the divisor, with the divisor's sign."""
    divisor = g.of("other")
    divide(g.of(), divisor)  # refuses divisors that may be 0
    low, high = min(divisor.low, 0.0), max(divisor.high, 0.0)
    is_whole = divisor.is_whole and g.of().is_whole
    remainder = Spread(low, high, (low + high) / 2, (high - low) / sqrt(12.0), is_whole=is_whole)
    return _after_broadcast(g, remainder, "input", "other")


def _fmod(g: RuleInputs) -> Spread:
    """The spread of fmod: no larger than divisor and dividend, with the dividend's sign."""
    dividend, divisor = g.of(), g.of("other")
    divide(dividend, divisor)  # refuses divisors that may be 0
    limit = min(divisor.largest, dividend.largest)
    low, high = min(max(dividend.low, -limit), 0.0), max(min(dividend.high, limit), 0.0)
    is_whole = divisor.is_whole and dividend.is_whole
    remainder = Spread(low, high, (low + high) / 2, (high - low) / sqrt(12.0), is_whole=is_whole)
    return _after_broadcast(g, remainder, "input", "other")


def _shift(g: RuleInputs, sign: int) -> Spread:
    """The spread of a shift to the left (sign 1) or to the right (-1).

    A shift is a product with a power of two. Too many places leave 0 or -1.

    Raises:
        OutOfDomain: the result may not fit into the dtype.
    """
    value, places = g.of(), g.of("other")
    least, most = (clipped(places.low, 0.0, 62.0), clipped(places.high, 0.0, 62.0))
    factors = Spread(2.0 ** (sign * least), 2.0 ** (sign * most), 0.0, 0.0)
    if sign < 0:
        factors = factors._replace(low=factors.high, high=factors.low)
    if value.largest * factors.high >= 2.0 ** (8 * DTYPE_BYTES[g.results[0].dtype] - 1):
        raise OutOfDomain(f"{value.largest:.3g} shifted by {most:.3g} places")
    ends = [floor(v * f) for v in (value.low, value.high) for f in (factors.low, factors.high)]
    low, high = float(min(*ends, 0)), float(max(*ends, 0))
    if places.low == places.high:
        return scale(value, factors.low)._replace(low=low, high=high, is_whole=True)
    shifted = Spread(low, high, (low + high) / 2, (high - low) / sqrt(12.0), is_whole=True)
    return _after_broadcast(g, shifted, "input", "other")


def _angle(opposite: Spread, adjacent: Spread) -> Spread:
    """The spread of atan2: within +-pi / 2 if the adjacent side is positive, else within +-pi."""
    limit = pi / 2 if adjacent.low > 0 else pi
    low, high = (0.0 if opposite.low >= 0 else -limit), (limit if opposite.high >= 0 else 0.0)
    return Spread(low, high, (low + high) / 2, (high - low) / sqrt(12.0))


def _hypotenuse(a: Spread, b: Spread) -> Spread:
    """The spread of sqrt(a * a + b * b)."""
    mean, deviation = sqrt(a.rms**2 + b.rms**2), sqrt(a.std**2 + b.std**2) / 2
    high = sqrt(a.largest**2 + b.largest**2)
    return Spread(0.0, high, mean, deviation, a.independent and b.independent)


def _larger(a: Spread, b: Spread) -> Spread:
    """The spread of max(a, b), with the moments for normal values (Clark, 1961), kept in range."""
    low, high = max(a.low, b.low), max(a.high, b.high)
    is_whole = a.is_whole and b.is_whole
    gap = sqrt(a.std * a.std + b.std * b.std)
    if gap == 0:
        return point(max(a.mean, b.mean))._replace(low=low, high=high)
    z = (a.mean - b.mean) / gap
    share, density = 0.5 * (1 + erf(z * sqrt(0.5))), 0.3989422804 * exp(-0.5 * min(z * z, 1000.0))
    mean = a.mean * share + b.mean * (1 - share) + gap * density
    second = (a.mean**2 + a.std**2) * share + (b.mean**2 + b.std**2) * (1 - share)
    second += (a.mean + b.mean) * gap * density
    std = sqrt(max(second - mean * mean, 0.0))
    return Spread(
        low, high, clipped(mean, low, high), std, a.independent and b.independent, 0.0, is_whole
    )


def _smaller(a: Spread, b: Spread) -> Spread:
    return scale(_larger(scale(a, -1.0), scale(b, -1.0)), -1.0)


def _power(g: RuleInputs) -> Spread:
    """The spread of a power.

    Raises:
        OutOfDomain: the exponent is no single whole number and the base may be negative.
    """
    base, exponent = g.of(), g.of("exponent")
    number = exponent.low
    if number == exponent.high and float(number).is_integer():
        if number < 0:
            base, number = reciprocal(base), -number
        return image(partial(_whole_power, int(number)), base, 0.0)
    if base.low < 0 or (base.low == 0 and exponent.low < 0):
        raise OutOfDomain(f"powers of {base.low:.3g}")
    if base.low == 0:
        largest = max(exponent.high, 0.0)
        powered = image(lambda x: exp_of(largest * log(x)) if x > 0 else 0.0, base)
        return _after_broadcast(g, mix(powered, base), "input", "exponent")
    power = image(exp_of, multiply(image(log, base), exponent))
    return _after_broadcast(g, power, "input", "exponent")


def _whole_power(exponent: int, x: float) -> float:
    try:
        return float(x) ** exponent
    except OverflowError:
        return INFINITE if x > 0 or exponent % 2 == 0 else -INFINITE


def _where(g: RuleInputs) -> Spread:
    condition = g.of("condition")
    if condition.low == condition.high:
        return g.of("input" if condition.low else "other")
    return _after_broadcast(g, mix(g.of(), g.of("other")), "condition", "input", "other")


def _masked_fill(g: RuleInputs) -> Spread:
    mask = g.of("mask")
    if mask.low == mask.high:
        return g.of("value") if mask.low else g.of()
    return _after_broadcast(g, mix(g.of(), g.of("value")), "input", "mask")


def _lerp(g: RuleInputs) -> Spread:
    start, end, weight = g.of(), g.of("end"), g.of("weight")
    result = add(start, multiply(weight, subtract(end, start)))
    if weight.low >= 0 and weight.high <= 1:
        low, high = min(start.low, end.low), max(start.high, end.high)
        result = result._replace(low=max(result.low, low), high=min(result.high, high))
    return _after_broadcast(g, result, "input", "end", "weight")


def _third(combine: Callable[[Spread, Spread], Spread]) -> Rule:
    def rule(g: RuleInputs) -> Spread:
        product = scale(combine(g.of("tensor1"), g.of("tensor2")), g["value"])
        return _after_broadcast(g, add(g.of(), product), "input", "tensor1", "tensor2")

    return rule


RULES: dict[str, Rule] = {
    "add": _sum_rule,
    "sub": _sub_rule,
    "rsub": _rsub_rule,
    "mul": _pairwise(multiply),
    "div": _div_rule,
    "remainder": _remainder,
    "fmod": _fmod,
    "atan2": _pairwise(_angle),
    "hypot": _pairwise(_hypotenuse),
    "bitwise_left_shift": partial(_shift, sign=1),
    "bitwise_right_shift": partial(_shift, sign=-1),
    "maximum": _pairwise(_larger),
    "minimum": _pairwise(_smaller),
    "pow": _power,
    "eq": _pairwise(_equal),
    "ne": _pairwise(lambda a, b: negation(_equal(a, b))),
    "lt": _pairwise(lambda a, b: _less(a, b, False)),
    "le": _pairwise(lambda a, b: _less(a, b, True)),
    "gt": _pairwise(lambda a, b: _less(b, a, False)),
    "ge": _pairwise(lambda a, b: _less(b, a, True)),
    "logical_and": _pairwise(_both),
    "logical_or": _pairwise(_either),
    "logical_xor": _pairwise(_one_of),
    **{f"bitwise_{name}": _pairwise(_bits) for name in ("and", "or", "xor")},
    "where": _where,
    "lerp": _lerp,
    "masked_fill": _masked_fill,
    "addcmul": _third(multiply),
    "addcdiv": _third(divide),
}
