"""Spreads of products of matrices, convolutions and attention."""

from math import prod

from kernelwright.ops.ranges.rule_inputs import Rule, RuleInputs
from kernelwright.ops.ranges.spread import Spread, add, average, contract, scale


def _contraction(left: str, right: str) -> Rule:
    def rule(g: RuleInputs) -> Spread:
        return contract(g.of(left), g.of(right), g[left].shape[-1])

    return rule


def _added(left: str, right: str) -> Rule:
    def rule(g: RuleInputs) -> Spread:
        product = contract(g.of(left), g.of(right), g[left].shape[-1])
        return add(scale(g.of(), g["beta"]), scale(product, g["alpha"]))

    return rule


def _linear(g: RuleInputs) -> Spread:
    product = contract(g.of(), g.of("weight"), g["input"].shape[-1])
    return add(product, g.of("bias")) if g.has("bias") else product


def _convolution(g: RuleInputs) -> Spread:
    product = contract(g.of(), g.of("weight"), prod(g["weight"].shape[1:]))
    if any(g["padding"]):
        product = _up_to_zero(product)
    return add(product, g.of("bias")) if g.has("bias") else product


def _transposed(g: RuleInputs) -> Spread:
    """The rule of transposed convolutions: gaps of a stride get fewer products."""
    weight = g["weight"].shape
    terms = weight[0] * prod(weight[2:]) / prod(g["stride"]) / g["groups"]
    product = _up_to_zero(contract(g.of(), g.of("weight"), max(terms, 1.0)))
    return add(product, g.of("bias")) if g.has("bias") else product


def _up_to_zero(v: Spread) -> Spread:
    """The spread with a range that holds 0, for sums that may have no terms."""
    return v._replace(low=min(v.low, 0.0), high=max(v.high, 0.0))


def _attention(g: RuleInputs) -> Spread:
    """The rule of attention: a weighted mean of values, about the plain mean for small scores."""
    v, keys = g.of("value"), g["key"].shape[-2]
    mean = average(v, keys)
    return Spread(v.low, v.high, v.mean, min(2 * mean.std, v.std), v.independent)


RULES: dict[str, Rule] = {
    "matmul": _contraction("input", "other"),
    "mm": _contraction("input", "mat2"),
    "bmm": _contraction("input", "mat2"),
    "mv": _contraction("input", "vec"),
    "dot": _contraction("input", "tensor"),
    "addmm": _added("mat1", "mat2"),
    "baddbmm": _added("batch1", "batch2"),
    "linear": _linear,
    **{f"conv{d}d": _convolution for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": _transposed for d in (1, 2, 3)},
    "scaled_dot_product_attention": _attention,
}
