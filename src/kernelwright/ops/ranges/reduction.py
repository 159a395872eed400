"""Spreads of reductions, scans and normalizations."""

from math import exp, inf, log, prod, sqrt

from kernelwright.ops.ranges.functions import exp_of, negation, truth
from kernelwright.ops.ranges.rule_inputs import Rule, RuleInputs
from kernelwright.ops.ranges.spread import (
    OutOfDomain,
    Spread,
    absolute,
    add,
    average,
    coin,
    extreme,
    image,
    mix,
    multiply,
    point,
    scale,
    square,
    total,
)

# Reductions


def _index(count: float) -> Spread:
    """The spread of positions along a dimension of `count` elements, all equally likely."""
    return Spread(0.0, count - 1, (count - 1) / 2, count / sqrt(12.0), is_whole=True)


def _any(g: RuleInputs) -> Spread:
    return _unless_all(truth(g.of()), g.count)


def _all(g: RuleInputs) -> Spread:
    return negation(_unless_all(negation(truth(g.of())), g.count))


def _unless_all(v: Spread, count: float) -> Spread:
    """The spread of "any of `count` truth values holds"; `v` is the spread of one of them."""
    share = 1 - (1 - v.mean) ** count
    return coin(share, independent=v.independent)._replace(low=v.low, high=v.high)


def _extremes(sign: int) -> Rule:
    """The rule of max (sign 1) or min (-1) along a dimension: values and their indices."""
    return lambda g: (extreme(g.of(), g.count, sign), _index(g.count))


def product(v: Spread, count: float) -> Spread:
    """The spread of the product of `count` elements.

    For positive elements it follows from the sum of their logarithms.
    """
    if v.low > 0:
        return image(exp_of, total(image(log, v), count))
    largest = exp_of(count * log(max(v.largest, 1e-30)))
    typical = exp_of(count * log(max(v.rms, 1e-30)))
    return Spread(-largest, largest, 0.0, min(typical, largest))


def variance(v: Spread, count: float, correction: float) -> Spread:
    """The spread of the variance of `count` elements.

    Args:
        correction: number that is taken from `count` in the divisor.

    Raises:
        OutOfDomain: `count` is not above the correction.
    """
    if count <= correction:
        raise OutOfDomain(f"variance of {count:g} elements with correction {correction}")
    centred = Spread(v.low - v.mean, v.high - v.mean, 0.0, v.std, v.independent)
    spread = scale(total(square(centred), count), 1 / (count - correction))
    low = max(spread.low, 0.0) if v.independent else 0.0
    return spread._replace(low=low, mean=max(spread.mean, low))


def _variance(g: RuleInputs) -> Spread:
    return variance(g.of(), g.count, g["correction"])


def _root(v: Spread) -> Spread:
    return image(lambda x: sqrt(max(x, 0.0)), v)


def norm(v: Spread, count: float, order: float) -> Spread:
    """The spread of the vector norm of this order, over `count` elements.

    Raises:
        OutOfDomain: the order is negative and elements may be 0.
    """
    if order == inf:
        return extreme(absolute(v), count, 1)
    if order == -inf:
        return extreme(absolute(v), count, -1)
    if order == 0:
        return Spread(0.0, count, count, 0.0)
    if order < 0 and v.low <= 0 <= v.high:
        raise OutOfDomain(f"norm of order {order:g} of {v.low:.3g} to {v.high:.3g}")
    powered = image(lambda x: min(abs(x) ** order, 1e100) if x else 0.0, v, 0.0)
    return image(lambda x: max(x, 0.0) ** (1 / order), total(powered, count))


def log_sum_exp(v: Spread, count: float) -> Spread:
    """The spread of log(sum(exp(x))) over `count` elements."""
    # exp of a normal value has the mean exp(mean + variance / 2).
    spill = log(count)
    mean = min(v.mean + v.std * v.std / 2, v.high) + spill
    std = v.std / sqrt(count) if v.independent else v.std
    return Spread(v.low + spill, v.high + spill, mean, std, v.independent)


# Along a dimension


def _length(g: RuleInputs) -> float:
    """Elements along the call's dimension `dim`; 1 for a scalar."""
    shape = g["input"].shape
    return float(shape[g["dim"]]) if shape else 1.0


def _softmax(g: RuleInputs) -> Spread:
    return softmax(g.of(), _length(g))


def softmax(v: Spread, count: float) -> Spread:
    """The spread of softmax over `count` elements, whose mean is always 1 / count."""
    # The bound of the largest share: the largest element among others at their mean.
    if count <= 1:
        return point(1.0)
    width = min(v.high - v.low, 600.0)
    others = (count - 1) * exp(-min(v.high - v.mean, 600.0)) if v.independent else 0.0
    high = 1 / (1 + max(others, (count - 1) * exp(-width)))
    deviation = sqrt(exp(min(v.std * v.std, 600.0)) - 1) / count
    return Spread(
        exp(-width) / count, high, 1 / count, min(deviation, 1 / sqrt(count)), v.independent
    )


def _log_softmax(g: RuleInputs) -> Spread:
    v, count = g.of(), _length(g)
    if count <= 1:
        return point(0.0)
    width, spill = v.high - v.low, log(count)
    mean = -min(spill + v.std * v.std / 2, width + spill)
    return Spread(-width - spill, min(0.0, width - spill), mean, v.std, v.independent)


def _cumsum(g: RuleInputs) -> Spread:
    v, count = g.of(), _length(g)
    # Over all positions, a drift to M deviates by M / sqrt(12). A random walk deviates by its last
    # deviation / sqrt(2).
    whole = total(v, count)
    return Spread(
        min(v.low, whole.low),
        max(v.high, whole.high),
        (v.mean + whole.mean) / 2,
        max(v.std, whole.std / 1.4, abs(whole.mean) / 3.5),
        False,
    )


def _cumprod(g: RuleInputs) -> Spread:
    v = g.of()
    return mix(v, product(v, _length(g)))._replace(independent=False)


def _running_extreme(sign: int) -> Rule:
    def rule(g: RuleInputs) -> tuple[Spread, Spread]:
        count = _length(g)
        values = mix(g.of(), extreme(g.of(), count, sign))._replace(independent=False)
        return values, _index(count)._replace(independent=False)

    return rule


def _logcumsumexp(g: RuleInputs) -> Spread:
    return mix(g.of(), log_sum_exp(g.of(), _length(g)))._replace(independent=False)


# Norms


def _normalized(v: Spread, count: float, *, centred: bool) -> Spread:
    """The spread after normalization over `count` elements.

    Args:
        centred: whether the mean is subtracted, as rms_norm does not.
    """
    # Squares of the results add up to `count`, so none can exceed the root of it.
    limit = sqrt(max(count - 1, 0.0) if centred else count)
    if limit == 0:
        return point(0.0)
    mean, size = (v.mean, v.std) if centred else (0.0, v.rms)
    if not v.independent or size == 0:
        return Spread(-limit, limit, 0.0, 1.0, v.independent)
    low, high = max((v.low - mean) / size, -limit), min((v.high - mean) / size, limit)
    around = 0.0 if centred else v.mean / size
    return Spread(low, high, around, v.std / size, True)


def _affine(g: RuleInputs, v: Spread) -> Spread:
    """The spread of v * weight + bias, as far as the call has these."""
    if g.has("weight"):
        v = multiply(v, g.of("weight"))
    return add(v, g.of("bias")) if g.has("bias") else v


def _layer_norm(g: RuleInputs) -> Spread:
    return _affine(g, _normalized(g.of(), prod(g["normalized_shape"]), centred=True))


def _rms_norm(g: RuleInputs) -> Spread:
    v = _normalized(g.of(), prod(g["normalized_shape"]), centred=False)
    return multiply(v, g.of("weight")) if g.has("weight") else v


def _group_norm(g: RuleInputs) -> Spread:
    shape = g["input"].shape
    return _affine(g, _normalized(g.of(), prod(shape[1:]) / g["num_groups"], centred=True))


def _by_channel(g: RuleInputs, count: float, trained: bool) -> Spread:
    """The spread of a normalization by channel.

    Args:
        count: elements of a channel.
        trained: whether the statistics are the input's own, not running ones.
    """
    if trained:
        return _affine(g, _normalized(g.of(), count, centred=True))
    eps = g["eps"]
    variance = g.of("running_var")
    if variance.low + eps <= 0:
        raise OutOfDomain(f"variances from {variance.low:.3g}")
    inverse = image(lambda x: 1 / sqrt(x + eps), variance)
    centred = add(g.of(), scale(g.of("running_mean"), -1.0))
    return _affine(g, multiply(centred, inverse))


def _instance_norm(g: RuleInputs) -> Spread:
    return _by_channel(g, prod(g["input"].shape[2:]), g["use_input_stats"])


def _batch_norm(g: RuleInputs) -> Spread:
    shape = g["input"].shape
    return _by_channel(g, shape[0] * prod(shape[2:]), g["training"])


def _batch_norm_train(g: RuleInputs) -> tuple[Spread, ...]:
    """The result, the batch's mean and inverse deviation, then the running statistics."""
    v, shape = g.of(), g["input"].shape
    count, share = shape[0] * prod(shape[2:]), g["momentum"]
    normed = _by_channel(g, count, True)
    mean = average(v, count)
    var = variance(v, count, 1)
    deviation = 1 / sqrt(v.std * v.std + g["eps"])
    inverse = Spread(0.0, 1 / sqrt(g["eps"]), deviation, deviation / sqrt(count))
    moved_mean = add(scale(g.of("running_mean"), 1 - share), scale(mean, share))
    moved_var = add(scale(g.of("running_var"), 1 - share), scale(var, share))
    return normed, mean, inverse, moved_mean, moved_var


def _sum(g: RuleInputs) -> Spread:
    return total(g.of(), g.count)


RULES: dict[str, Rule] = {
    "sum": _sum,
    "mean": lambda g: average(g.of(), g.count),
    "amax": lambda g: extreme(g.of(), g.count, 1),
    "amin": lambda g: extreme(g.of(), g.count, -1),
    "max_all": lambda g: extreme(g.of(), g.count, 1),
    "min_all": lambda g: extreme(g.of(), g.count, -1),
    "max": _extremes(1),
    "min": _extremes(-1),
    "argmax": lambda g: _index(g.count),
    "argmin": lambda g: _index(g.count),
    "prod": lambda g: product(g.of(), g.count),
    "std": lambda g: _root(_variance(g)),
    "var": _variance,
    "norm": lambda g: norm(g.of(), g.count, g["ord"]),
    "logsumexp": lambda g: log_sum_exp(g.of(), g.count),
    "any": _any,
    "all": _all,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "cummax": _running_extreme(1),
    "cummin": _running_extreme(-1),
    "logcumsumexp": _logcumsumexp,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "batch_norm": _batch_norm,
    "batch_norm_train": _batch_norm_train,
}
