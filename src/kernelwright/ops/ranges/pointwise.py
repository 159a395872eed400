"""Spreads of pointwise operators' results."""

from collections.abc import Callable
from functools import partial
from math import ceil, cos, erf, exp, expm1, floor, log, log1p, log2, sin, sqrt, tan, tanh

from kernelwright.ops.ranges.given import Given, Rule
from kernelwright.ops.ranges.spread import (
    OutOfDomain,
    Spread,
    add,
    divide,
    image,
    mix,
    multiply,
    point,
    reciprocal,
    scale,
    shift,
    subtract,
)

_LARGEST_EXPONENT = 690.0
"""Of a power of e that a float holds; results beyond are refused anyway."""
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_COIN = Spread(0.0, 1.0, 0.5, 0.5)


# Functions


def exp_of(x: float) -> float:
    return exp(min(x, _LARGEST_EXPONENT))


def sigmoid(x: float) -> float:
    return 1 / (1 + exp_of(-x))


def softplus(x: float) -> float:
    return x if x > 30 else log1p(exp(max(x, -_LARGEST_EXPONENT)))


def _gelu(x: float) -> float:
    return 0.5 * x * (1 + erf(x * sqrt(0.5)))


def _elu(x: float, alpha: float = 1.0) -> float:
    return x if x > 0 else alpha * expm1(x)


def _celu(x: float, alpha: float) -> float:
    return x if x > 0 else alpha * expm1(x / alpha)


def _clipped(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


def _inside(
    function: Callable[[float], float], low: float, high: float, *, closed: bool = False
) -> Callable[[float], float]:
    """A function that is defined between bounds only."""

    def guarded(x: float) -> float:
        if low < x < high or (closed and x in (low, high)):
            return function(x)
        raise OutOfDomain(f"{x:.3g} is not between {low:g} and {high:g}")

    return guarded


_INFINITE = float("inf")
_FUNCTIONS: dict[str, tuple[Callable[[float], float], tuple[float, ...]]] = {
    "relu": (lambda x: max(x, 0.0), ()),
    "relu6": (lambda x: _clipped(x, 0.0, 6.0), ()),
    "sigmoid": (sigmoid, ()),
    "tanh": (tanh, ()),
    "silu": (lambda x: x * sigmoid(x), (-1.2785,)),
    "gelu": (_gelu, (-0.7518,)),
    "selu": (lambda x: _SELU_SCALE * _elu(x, _SELU_ALPHA), ()),
    "hardsigmoid": (lambda x: _clipped(x / 6 + 0.5, 0.0, 1.0), ()),
    "hardswish": (lambda x: x * _clipped(x / 6 + 0.5, 0.0, 1.0), (-1.5,)),
    "mish": (lambda x: x * tanh(softplus(x)), (-1.1924,)),
    "softsign": (lambda x: x / (1 + abs(x)), ()),
    "logsigmoid": (lambda x: -softplus(-x), ()),
    "exp": (exp_of, ()),
    "exp2": (lambda x: exp_of(x * log(2)), ()),
    "expm1": (lambda x: expm1(min(x, _LARGEST_EXPONENT)), ()),
    "log": (_inside(log, 0, _INFINITE), ()),
    "log2": (_inside(log2, 0, _INFINITE), ()),
    "log1p": (_inside(log1p, -1, _INFINITE), ()),
    "sqrt": (_inside(sqrt, 0, _INFINITE, closed=True), ()),
    "rsqrt": (_inside(lambda x: 1 / sqrt(x), 0, _INFINITE), ()),
    "abs": (abs, (0.0,)),
    "neg": (lambda x: -x, ()),
    "square": (lambda x: x * x, (0.0,)),
    "tan": (_inside(tan, -1.5, 1.5), ()),
    "erf": (erf, ()),
    "floor": (floor, ()),
    "ceil": (ceil, ()),
    "round": (round, ()),
}
"""Functions of one number -> (the function, where it turns)."""


def _function(name: str) -> Rule:
    function, turns = _FUNCTIONS[name]
    return lambda g: image(function, g.of(), *turns)


def _sign(g: Given) -> Spread:
    v = g.of()
    if v.low < 0 < v.high:
        return Spread(-1.0, 1.0, 0.0, 1.0, v.independent)
    return image(lambda x: float((x > 0) - (x < 0)), v)


def _leaky_relu(g: Given) -> Spread:
    slope = g["negative_slope"]
    return image(lambda x: x if x > 0 else slope * x, g.of(), 0.0)


def _with_alpha(function: Callable[[float, float], float]) -> Rule:
    return lambda g: image(lambda x: function(x, g["alpha"]), g.of())


def _softplus(g: Given) -> Spread:
    beta = g["beta"]
    return image(lambda x: softplus(beta * x) / beta, g.of())


def _hardtanh(g: Given) -> Spread:
    return image(lambda x: _clipped(x, g["min_val"], g["max_val"]), g.of())


def _clamp(g: Given) -> Spread:
    low = -_INFINITE if g["min"] is None else g["min"]
    high = _INFINITE if g["max"] is None else g["max"]
    return image(lambda x: _clipped(x, low, high), g.of())


def _threshold(g: Given) -> Spread:
    limit, value = g["threshold"], g["value"]
    kept = image(lambda x: max(x, limit), g.of())
    return mix(kept, point(value)) if g.of().low <= limit else kept


def _wave(function: Callable[[float], float]) -> Rule:
    """Of sin and cos, whose turns are many."""

    def rule(g: Given) -> Spread:
        v = g.of()
        found = image(function, v._replace(low=max(v.low, -20.0), high=min(v.high, 20.0)))
        if v.high - v.low < 1.5:  # it turns at most once, by less than it changes
            slack = (v.high - v.low) ** 2 / 8
            return found._replace(
                low=max(found.low - slack, -1.0), high=min(found.high + slack, 1.0)
            )
        return Spread(-1.0, 1.0, _clipped(found.mean, -1, 1), 0.7, v.independent)

    return rule


# Truth


def truth(v: Spread) -> Spread:
    """1 where an element is not 0."""
    if v.low > 0 or v.high < 0:
        return point(1.0)
    return point(0.0) if v.low == v.high == 0 else _COIN._replace(independent=v.independent)


def _not(v: Spread) -> Spread:
    return shift(scale(v, -1.0), 1.0)


def _bitwise_not(g: Given) -> Spread:
    return shift(scale(g.of(), -1.0), 1.0 if g["input"].dtype == "bool" else -1.0)


def _less(a: Spread, b: Spread, or_equal: bool) -> Spread:
    if a.high < b.low or (or_equal and a.high == b.low):
        return point(1.0)
    if a.low > b.high or (not or_equal and a.low == b.high):
        return point(0.0)
    return _COIN


def _equal(a: Spread, b: Spread) -> Spread:
    if a.high < b.low or b.high < a.low:
        return point(0.0)
    return point(1.0) if a.low == a.high == b.low == b.high else _COIN


def _both(a: Spread, b: Spread) -> Spread:
    one, other = truth(a), truth(b)
    return Spread(min(one.low, other.low), min(one.high, other.high), one.mean * other.mean, 0.5)


def _bits(a: Spread, b: Spread) -> Spread:
    """Of integers: no more bits than the larger has."""
    limit = 1.0
    while limit <= max(a.largest, b.largest):
        limit *= 2
    low = 0.0 if min(a.low, b.low) >= 0 else -limit
    return Spread(low, limit - 1, (low + limit - 1) / 2, limit / 4)


def _to_dtype(g: Given) -> Spread:
    dtype, v = g["dtype"], g.of()
    if dtype == "bool":
        return truth(v)
    return v if "float" in dtype else image(lambda x: float(int(x)), v)


# Several operands


def _pairwise(function: Callable[[Spread, Spread], Spread], second: str = "other") -> Rule:
    """Operands that broadcast are no longer independent."""

    def rule(g: Given) -> Spread:
        made = function(g.of(), g.of(second))
        return _after_broadcast(g, made, "input", second)

    return rule


def _after_broadcast(g: Given, made: Spread, *names: str) -> Spread:
    wanted = g.made[0].numel
    widened = any(g.has(name) and g[name].numel < wanted for name in names)
    return made._replace(independent=False) if widened else made


def _sum_rule(g: Given) -> Spread:
    return _after_broadcast(g, add(g.of(), scale(g.of("other"), g["alpha"])), "input", "other")


def _sub_rule(g: Given) -> Spread:
    return _after_broadcast(g, add(g.of(), scale(g.of("other"), -g["alpha"])), "input", "other")


def _rsub_rule(g: Given) -> Spread:
    return _after_broadcast(g, subtract(g.of("other"), scale(g.of(), g["alpha"])), "input", "other")


def _div_rule(g: Given) -> Spread:
    made = divide(g.of(), g.of("other"))
    if g["rounding_mode"] is not None:
        made = image(floor if g["rounding_mode"] == "floor" else int, made)
    return _after_broadcast(g, made, "input", "other")


def _larger(a: Spread, b: Spread) -> Spread:
    """Of two normal values (Clark, 1961), kept in range."""
    low, high = max(a.low, b.low), max(a.high, b.high)
    gap = sqrt(a.std * a.std + b.std * b.std)
    if gap == 0:
        return point(max(a.mean, b.mean))._replace(low=low, high=high)
    z = (a.mean - b.mean) / gap
    share, density = 0.5 * (1 + erf(z * sqrt(0.5))), 0.3989422804 * exp(-0.5 * min(z * z, 1000.0))
    mean = a.mean * share + b.mean * (1 - share) + gap * density
    second = (a.mean**2 + a.std**2) * share + (b.mean**2 + b.std**2) * (1 - share)
    second += (a.mean + b.mean) * gap * density
    std = sqrt(max(second - mean * mean, 0.0))
    return Spread(low, high, _clipped(mean, low, high), std, a.independent and b.independent)


def _smaller(a: Spread, b: Spread) -> Spread:
    return scale(_larger(scale(a, -1.0), scale(b, -1.0)), -1.0)


def _power(g: Given) -> Spread:
    """A whole number as exponent takes any base; else the base must be positive."""
    base, exponent = g.of(), g.of("exponent")
    number = exponent.low
    if number == exponent.high and float(number).is_integer():
        if number < 0:
            base, number = reciprocal(base), -number
        return image(partial(_whole_power, int(number)), base, 0.0)
    if base.low < 0 or (base.low == 0 and exponent.low < 0):
        raise OutOfDomain(f"powers of {base.low:.3g}")
    if base.low == 0:
        powered = image(lambda x: x ** max(exponent.high, 0.0) if x > 0 else 0.0, base)
        return _after_broadcast(g, mix(powered, base), "input", "exponent")
    made = image(exp_of, multiply(image(log, base), exponent))
    return _after_broadcast(g, made, "input", "exponent")


def _whole_power(exponent: int, x: float) -> float:
    try:
        return float(x) ** exponent
    except OverflowError:
        return _INFINITE if x > 0 or exponent % 2 == 0 else -_INFINITE


def _where(g: Given) -> Spread:
    condition = g.of("condition")
    if condition.low == condition.high:
        return g.of("input" if condition.low else "other")
    return _after_broadcast(g, mix(g.of(), g.of("other")), "condition", "input", "other")


def _masked_fill(g: Given) -> Spread:
    mask = g.of("mask")
    if mask.low == mask.high:
        return g.of("value") if mask.low else g.of()
    return _after_broadcast(g, mix(g.of(), g.of("value")), "input", "mask")


def _lerp(g: Given) -> Spread:
    start, end, weight = g.of(), g.of("end"), g.of("weight")
    made = add(start, multiply(weight, subtract(end, start)))
    if weight.low >= 0 and weight.high <= 1:
        low, high = min(start.low, end.low), max(start.high, end.high)
        made = made._replace(low=max(made.low, low), high=min(made.high, high))
    return _after_broadcast(g, made, "input", "end", "weight")


def _third(combine: Callable[[Spread, Spread], Spread]) -> Rule:
    def rule(g: Given) -> Spread:
        product = scale(combine(g.of("tensor1"), g.of("tensor2")), g["value"])
        return _after_broadcast(g, add(g.of(), product), "input", "tensor1", "tensor2")

    return rule


RULES: dict[str, Rule] = {
    **{name: _function(name) for name in _FUNCTIONS},
    "sign": _sign,
    "leaky_relu": _leaky_relu,
    "elu": _with_alpha(_elu),
    "celu": _with_alpha(_celu),
    "softplus": _softplus,
    "hardtanh": _hardtanh,
    "clamp": _clamp,
    "threshold": _threshold,
    "sin": _wave(sin),
    "cos": _wave(cos),
    "reciprocal": lambda g: reciprocal(g.of()),
    "isnan": lambda _: point(0.0),
    "logical_not": lambda g: _not(truth(g.of())),
    "bitwise_not": _bitwise_not,
    "to_dtype": _to_dtype,
    "add": _sum_rule,
    "sub": _sub_rule,
    "rsub": _rsub_rule,
    "mul": _pairwise(multiply),
    "div": _div_rule,
    "maximum": _pairwise(_larger),
    "minimum": _pairwise(_smaller),
    "pow": _power,
    "eq": _pairwise(_equal),
    "ne": _pairwise(lambda a, b: _not(_equal(a, b))),
    "lt": _pairwise(lambda a, b: _less(a, b, False)),
    "le": _pairwise(lambda a, b: _less(a, b, True)),
    "gt": _pairwise(lambda a, b: _less(b, a, False)),
    "ge": _pairwise(lambda a, b: _less(b, a, True)),
    "logical_and": _pairwise(_both),
    "logical_or": _pairwise(lambda a, b: _not(_both(_not(truth(a)), _not(truth(b))))),
    "logical_xor": _pairwise(lambda a, b: _not(_equal(truth(a), truth(b)))),
    **{f"bitwise_{name}": _pairwise(_bits) for name in ("and", "or", "xor")},
    "where": _where,
    "lerp": _lerp,
    "masked_fill": _masked_fill,
    "addcmul": _third(multiply),
    "addcdiv": _third(divide),
}
