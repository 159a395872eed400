"""Spreads of pointwise operators of one operand."""

from collections.abc import Callable
from math import (
    acos,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    expm1,
    floor,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from statistics import NormalDist
from sys import float_info

from kernelwright.ops.ranges.rule_inputs import Rule, RuleInputs
from kernelwright.ops.ranges.spread import (
    OutOfDomain,
    Spread,
    coin,
    image,
    mix,
    point,
    reciprocal,
    scale,
    share_below,
    shift,
)

_LARGEST_EXPONENT = 690.0
"""The largest power of e that a float holds; larger results are refused anyway."""
_LARGEST_ANGLE = 1e5
"""Above it a float32 is off by so much that the sine of a narrow range may be any."""
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


# Functions


def exp_of(x: float) -> float:
    """exp(x), where a large x is cut so that the result stays finite."""
    return exp(min(x, _LARGEST_EXPONENT))


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    return 1 / (1 + exp_of(-x))


def softplus(x: float) -> float:
    """log(1 + exp(x)), without overflow."""
    return x if x > 30 else log1p(exp(max(x, -_LARGEST_EXPONENT)))


def _gelu(x: float) -> float:
    return 0.5 * x * (1 + erf(x * sqrt(0.5)))


def _elu(x: float, alpha: float = 1.0) -> float:
    return x if x > 0 else alpha * expm1(x)


def _celu(x: float, alpha: float) -> float:
    return x if x > 0 else alpha * expm1(x / alpha)


def clipped(x: float, low: float, high: float) -> float:
    """`x` limited to the range from `low` to `high`."""
    return min(max(x, low), high)


def _erfinv(x: float) -> float:
    # A number just below 1 makes a share that rounds to 1, where the normal quantile has no value.
    share = clipped((x + 1) / 2, float_info.min, 1 - float_info.epsilon / 2)
    return NormalDist().inv_cdf(share) * sqrt(0.5)


def _short(function: Callable[[float], float]) -> Callable[[float], float]:
    """A function that grows as exp does, with arguments clipped so that it does not overflow."""
    return lambda x: function(clipped(x, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))


def _inside(
    function: Callable[[float], float], low: float, high: float, *, closed: bool = False
) -> Callable[[float], float]:
    """The function, which raises OutOfDomain outside its bounds.

    Args:
        closed: whether the function is defined at the bounds too.
    """

    def guarded(x: float) -> float:
        if low < x < high or (closed and x in (low, high)):
            return function(x)
        raise OutOfDomain(f"{x:.3g} is not between {low:g} and {high:g}")

    return guarded


INFINITE = float("inf")
_LEAST_GAMMA = 1.46163
"""Where lgamma turns."""
_FUNCTIONS: dict[str, tuple[Callable[[float], float], tuple[float, ...]]] = {
    "relu": (lambda x: max(x, 0.0), ()),
    "relu6": (lambda x: clipped(x, 0.0, 6.0), ()),
    "sigmoid": (sigmoid, ()),
    "tanh": (tanh, ()),
    "silu": (lambda x: x * sigmoid(x), (-1.2785,)),
    "gelu": (_gelu, (-0.7518,)),
    "selu": (lambda x: _SELU_SCALE * _elu(x, _SELU_ALPHA), ()),
    "hardsigmoid": (lambda x: clipped(x / 6 + 0.5, 0.0, 1.0), ()),
    "hardswish": (lambda x: x * clipped(x / 6 + 0.5, 0.0, 1.0), (-1.5,)),
    "mish": (lambda x: x * tanh(softplus(x)), (-1.1924,)),
    "softsign": (lambda x: x / (1 + abs(x)), ()),
    "logsigmoid": (lambda x: -softplus(-x), ()),
    "exp": (exp_of, ()),
    "exp2": (lambda x: exp_of(x * log(2)), ()),
    "expm1": (lambda x: expm1(min(x, _LARGEST_EXPONENT)), ()),
    "log": (_inside(log, 0, INFINITE), ()),
    "log2": (_inside(log2, 0, INFINITE), ()),
    "log1p": (_inside(log1p, -1, INFINITE), ()),
    "sqrt": (_inside(sqrt, 0, INFINITE, closed=True), ()),
    "rsqrt": (_inside(lambda x: 1 / sqrt(x), 0, INFINITE), ()),
    "abs": (abs, (0.0,)),
    "neg": (lambda x: -x, ()),
    "square": (lambda x: x * x, (0.0,)),
    "tan": (_inside(tan, -1.5, 1.5), ()),
    "acos": (_inside(acos, -1, 1, closed=True), ()),
    "asin": (_inside(asin, -1, 1, closed=True), ()),
    "atan": (atan, ()),
    "sinh": (_short(sinh), ()),
    "cosh": (_short(cosh), (0.0,)),
    "asinh": (asinh, ()),
    "atanh": (_inside(atanh, -1, 1), ()),
    "log10": (_inside(log10, 0, INFINITE), ()),
    "lgamma": (_inside(lgamma, 0, INFINITE), (_LEAST_GAMMA,)),
    "erf": (erf, ()),
    "erfc": (erfc, ()),
    "erfinv": (_inside(_erfinv, -1, 1), ()),
    "floor": (floor, ()),
    "ceil": (ceil, ()),
    "round": (round, ()),
    "trunc": (trunc, ()),
}
"""Functions of one number -> (the function, where it turns)."""


def _function(name: str) -> Rule:
    function, turns = _FUNCTIONS[name]
    return lambda g: image(function, g.of(), *turns)


_WHOLE = ("floor", "ceil", "round", "trunc")


def _rounded(name: str) -> Rule:
    rule = _function(name)
    return lambda g: rule(g)._replace(is_whole=True)  # type: ignore[union-attr]


def _sign(g: RuleInputs) -> Spread:
    v = g.of()
    if v.low < 0 < v.high:
        share = 1 - v.share_of_zeros  # of -1 and 1
        mean = share * (1 - 2 * share_below(v, point(0.0)))
        std = sqrt(share - mean * mean)
        return Spread(-1.0, 1.0, mean, std, v.independent, 1 - share, is_whole=True)
    return image(lambda x: float((x > 0) - (x < 0)), v)._replace(is_whole=True)


def _leaky_relu(g: RuleInputs) -> Spread:
    slope = g["negative_slope"]
    return image(lambda x: x if x > 0 else slope * x, g.of(), 0.0)


def _with_alpha(function: Callable[[float, float], float]) -> Rule:
    return lambda g: image(lambda x: function(x, g["alpha"]), g.of())


def _softplus(g: RuleInputs) -> Spread:
    beta = g["beta"]
    return image(lambda x: softplus(beta * x) / beta, g.of())


def _hardtanh(g: RuleInputs) -> Spread:
    return image(lambda x: clipped(x, g["min_val"], g["max_val"]), g.of())


def _clamp(g: RuleInputs) -> Spread:
    low = -INFINITE if g["min"] is None else g["min"]
    high = INFINITE if g["max"] is None else g["max"]
    return image(lambda x: clipped(x, low, high), g.of())


def _threshold(g: RuleInputs) -> Spread:
    limit, value = g["threshold"], g["value"]
    kept = image(lambda x: max(x, limit), g.of())
    return mix(kept, point(value)) if g.of().low <= limit else kept


def _wave(function: Callable[[float], float]) -> Rule:
    """The rule of sin and cos."""
    # `image` takes functions that turn at few known places; a wide range has too many of these.

    def rule(g: RuleInputs) -> Spread:
        v = g.of()
        if v.high - v.low < 1.5 and v.largest < _LARGEST_ANGLE:
            # It turns at most once, by less than it changes.
            spread = image(function, v)
            slack = (v.high - v.low) ** 2 / 8
            return spread._replace(
                low=max(spread.low - slack, -1.0), high=min(spread.high + slack, 1.0)
            )
        # The mean of the sine or cosine of normal elements.
        mean = function(clipped(v.mean, -1e30, 1e30)) * exp_of(-v.std * v.std / 2)
        return Spread(-1.0, 1.0, mean, 0.7, v.independent)

    return rule


# Truth


def truth(v: Spread) -> Spread:
    """The spread of a tensor with 1 where an element of `v` is not 0, else 0."""
    if v.low > 0 or v.high < 0:
        return point(1.0)
    if v.low == v.high == 0:
        return point(0.0)
    return coin(1 - v.share_of_zeros, independent=v.independent)


def negation(v: Spread) -> Spread:
    """The spread of 1 - v, which negates truth values."""
    return shift(scale(v, -1.0), 1.0)


def _bitwise_not(g: RuleInputs) -> Spread:
    return shift(scale(g.of(), -1.0), 1.0 if g["input"].dtype == "bool" else -1.0)


def _to_dtype(g: RuleInputs) -> Spread:
    dtype, v = g["dtype"], g.of()
    if dtype == "bool":
        return truth(v)
    return v if "float" in dtype else image(lambda x: float(int(x)), v)._replace(is_whole=True)


RULES: dict[str, Rule] = {
    **{name: _function(name) for name in _FUNCTIONS},
    **{name: _rounded(name) for name in _WHOLE},
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
    "logical_not": lambda g: negation(truth(g.of())),
    "bitwise_not": _bitwise_not,
    "to_dtype": _to_dtype,
}
