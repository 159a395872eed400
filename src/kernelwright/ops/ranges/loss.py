"""Spreads of losses and similarities."""

from collections.abc import Callable
from math import exp, log, sqrt

from kernelwright.ops.operator import TensorType
from kernelwright.ops.ranges.functions import exp_of, softplus
from kernelwright.ops.ranges.reduction import norm
from kernelwright.ops.ranges.rule_inputs import Rule, RuleInputs
from kernelwright.ops.ranges.spread import (
    Spread,
    absolute,
    add,
    average,
    contract,
    divide,
    image,
    mix,
    multiply,
    rectify,
    scale,
    shift,
    square,
    subtract,
    total,
)

_LOG_FLOOR = -100.0
"""Below which binary_cross_entropy takes no logarithm."""


def _reduced(g: RuleInputs, losses: Spread, count: float, samples: int = 1) -> Spread:
    """The spread of a loss after its reduction.

    Args:
        losses: spread of the loss of one element.
        count: number of elements.
        samples: number by which "batchmean" divides the sum.
    """
    how = g["reduction"]
    if how == "none":
        return losses
    if how == "mean":
        return average(losses, count)
    return scale(total(losses, count), 1 / samples if how == "batchmean" else 1.0)


def _pairs(g: RuleInputs, *names: str) -> int:
    """Number of elements of the largest operand, the least that a broadcast of them can have."""
    return max(int(g[name].numel) for name in names)


def _pairwise(function: Callable[[RuleInputs, Spread], Spread]) -> Rule:
    """The rule of a loss that is a function of the difference of input and target."""

    def rule(g: RuleInputs) -> Spread:
        row_loss = function(g, subtract(g.of(), g.of("target")))
        return _reduced(g, row_loss, _pairs(g, "input", "target"))

    return rule


def _huber(g: RuleInputs, v: Spread) -> Spread:
    delta = g["delta"]
    return image(
        lambda x: 0.5 * x * x if abs(x) < delta else delta * (abs(x) - 0.5 * delta), v, 0.0
    )


def _smooth_l1(g: RuleInputs, v: Spread) -> Spread:
    beta = g["beta"]
    return image(lambda x: 0.5 * x * x / beta if abs(x) < beta else abs(x) - 0.5 * beta, v, 0.0)


def _classes(x: TensorType) -> int:
    return x.shape[min(x.rank - 1, 1)]


def _weighed(g: RuleInputs, losses: Spread) -> Spread:
    """The spread of a loss times the weight, if the call has one."""
    return multiply(losses, g.of("weight")) if g.has("weight") else losses


def _picked(g: RuleInputs, losses: Spread, smoothing: float = 0.0) -> Spread:
    """The spread of a loss after its reduction, where samples have classes with weights.

    The sum is divided by the sum of the samples' weights, not by their number: one sample's mean
    does not depend on its weight.

    Args:
        losses: spread of the loss of one sample.
        smoothing: share of the loss that comes from all classes alike.

    Raises:
        OutOfDomain: the sum of the weights may be 0.
    """
    classes = _classes(g["input"])
    count = g["input"].numel / classes
    if g["reduction"] != "mean" or not g.has("weight"):
        return _reduced(g, _weighed(g, losses), count)
    weight = g.of("weight")
    drawn = min(count, classes)  # samples of one class have the same weight
    if weight.low <= 0:
        return divide(average(multiply(losses, weight), drawn), average(weight, drawn))
    # Weights above 0 keep the mean between the smallest and the largest loss.
    variation = weight.std / weight.mean
    mean = average(losses, count / (1 + variation * variation))
    if smoothing == 0:
        return mean
    # The smoothed part has the weights of all classes above, and those of the targets below.
    ratio = divide(average(weight, classes), average(weight, drawn))
    return add(scale(mean, 1 - smoothing), scale(multiply(mean, ratio), smoothing))


def _cross_entropy(g: RuleInputs) -> Spread:
    x, classes = g.of(), _classes(g["input"])
    width, spill = x.high - x.low, log(classes)
    mean = min(spill + x.std * x.std / 2, width + spill)
    row_loss = Spread(max(spill - width, 0.0), width + spill, mean, x.std, x.independent)
    if g["input"].shape == g["target"].shape and "float" in g["target"].dtype:
        row_loss = _weighed(g, contract(row_loss, g.of("target"), classes))
        return _reduced(g, row_loss, g["input"].numel / classes)
    return _picked(g, row_loss, g["label_smoothing"])


def _nll(g: RuleInputs) -> Spread:
    return _picked(g, scale(g.of(), -1.0))


def _kl_div(g: RuleInputs) -> Spread:
    x, target = g.of(), g.of("target")
    if g["log_target"]:
        row_loss = multiply(image(exp_of, target), subtract(target, x))
    else:
        entropy = image(lambda t: t * log(t) if t > 0 else 0.0, target, exp(-1))
        row_loss = subtract(entropy, multiply(target, x))
    shape = g["input"].shape
    return _reduced(g, row_loss, _pairs(g, "input", "target"), shape[0] if shape else 1)


def _surprise(probability: Spread) -> Spread:
    return image(lambda p: -max(log(p), _LOG_FLOOR) if p > 0 else -_LOG_FLOOR, probability)


def _binary_cross_entropy(g: RuleInputs) -> Spread:
    p, target = g.of(), g.of("target")
    hit, miss = _surprise(p), _surprise(shift(scale(p, -1.0), 1.0))
    apart = add(multiply(target, hit), multiply(shift(scale(target, -1.0), 1.0), miss))
    both = mix(hit, miss)  # a weighted mean of the two
    row_loss = both._replace(mean=apart.mean, std=apart.std)
    return _reduced(g, _weighed(g, row_loss), g["input"].numel)


def _with_logits(g: RuleInputs) -> Spread:
    x, target = g.of(), g.of("target")
    hit, miss = image(lambda v: softplus(-v), x), image(softplus, x)
    if g.has("pos_weight"):
        hit = multiply(hit, g.of("pos_weight"))
    apart = add(multiply(target, hit), multiply(shift(scale(target, -1.0), 1.0), miss))
    row_loss = mix(hit, miss)._replace(mean=apart.mean, std=apart.std)
    return _reduced(g, _weighed(g, row_loss), g["input"].numel)


def _hinge_embedding(g: RuleInputs) -> Spread:
    x = g.of()
    row_loss = mix(x, rectify(shift(scale(x, -1.0), g["margin"])))
    return _reduced(g, row_loss, _pairs(g, "input", "target"))


def _soft_margin(g: RuleInputs) -> Spread:
    signed = mix(g.of(), scale(g.of(), -1.0))
    return _reduced(g, image(softplus, signed), _pairs(g, "input", "target"))


def _margin_ranking(g: RuleInputs) -> Spread:
    gap = subtract(g.of("input1"), g.of("input2"))
    row_loss = rectify(shift(mix(gap, scale(gap, -1.0)), g["margin"]))
    return _reduced(g, row_loss, _pairs(g, "input1", "input2", "target"))


def _cosine(g: RuleInputs, one: str, other: str, count: float) -> Spread:
    """The spread of the cosine of two vectors of `count` elements."""
    a, b = g.of(one), g.of(other)
    sizes = a.rms * b.rms
    mean = a.mean * b.mean / sizes if sizes else 0.0
    return Spread(-1.0, 1.0, mean, 1 / sqrt(count), a.independent and b.independent)


def _cosine_embedding(g: RuleInputs) -> Spread:
    count = g["input1"].shape[-1]
    cosine = _cosine(g, "input1", "input2", count)
    alike, apart = shift(scale(cosine, -1.0), 1.0), rectify(shift(cosine, -g["margin"]))
    return _reduced(g, mix(alike, apart), _pairs(g, "input1", "input2") / count)


def _distance(a: Spread, b: Spread, count: float, order: float) -> Spread:
    return norm(subtract(a, b), count, order)


def _triplet(g: RuleInputs) -> Spread:
    anchor, count = g.of("anchor"), g["anchor"].shape[-1]
    near = _distance(anchor, g.of("positive"), count, g["p"])
    far = _distance(anchor, g.of("negative"), count, g["p"])
    row_loss = rectify(shift(subtract(near, far), g["margin"]))
    return _reduced(g, row_loss, _pairs(g, "anchor", "positive", "negative") / count)


def _cosine_similarity(g: RuleInputs) -> Spread:
    return _cosine(g, "x1", "x2", max(_pairs(g, "x1", "x2") / max(g.results[0].numel, 1), 1.0))


def _pairwise_distance(g: RuleInputs) -> Spread:
    return _distance(g.of("x1"), g.of("x2"), max(g["x1"].shape[-1], g["x2"].shape[-1]), g["p"])


RULES: dict[str, Rule] = {
    "mse_loss": _pairwise(lambda _, v: square(v)),
    "l1_loss": _pairwise(lambda _, v: absolute(v)),
    "huber_loss": _pairwise(_huber),
    "smooth_l1_loss": _pairwise(_smooth_l1),
    "cross_entropy": _cross_entropy,
    "nll_loss": _nll,
    "kl_div": _kl_div,
    "binary_cross_entropy": _binary_cross_entropy,
    "binary_cross_entropy_with_logits": _with_logits,
    "hinge_embedding_loss": _hinge_embedding,
    "soft_margin_loss": _soft_margin,
    "margin_ranking_loss": _margin_ranking,
    "cosine_embedding_loss": _cosine_embedding,
    "triplet_margin_loss": _triplet,
    "cosine_similarity": _cosine_similarity,
    "pairwise_distance": _pairwise_distance,
}
