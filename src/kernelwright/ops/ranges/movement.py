"""Spreads of operators that move, pick or pool elements, or draw random ones."""

from math import prod

from kernelwright.ops.ranges.rule_inputs import Rule, RuleInputs
from kernelwright.ops.ranges.spread import (
    Spread,
    average,
    coin,
    extreme,
    mix,
    normal,
    point,
    scale,
    uniform,
    with_zeros,
)
from kernelwright.ops.rules import broadcast, dim_index

_OVERSHOOT = 1.6
"""The sum of the absolute weights of bicubic interpolation: some weights are negative."""


def _same(g: RuleInputs) -> Spread:
    return g.of()


def _pieces(g: RuleInputs) -> tuple[Spread, ...]:
    return (g.of(),) * len(g.results)


def _repeated(g: RuleInputs) -> Spread:
    """The rule of broadcast_to, repeat and unfold: repeated elements are not independent."""
    v = g.of()
    return v._replace(independent=v.independent and g.results[0].numel <= g["input"].numel)


def _pad(g: RuleInputs) -> Spread:
    if g["mode"] != "constant":
        return g.of()._replace(independent=False)
    return mix(g.of(), point(float(g["value"] or 0.0)))


def _picked(name: str) -> Rule:
    """The rule of picks from the tensor `name`, some elements of which occur more than once."""

    def rule(g: RuleInputs) -> Spread:
        v = g.of(name)
        return v._replace(independent=v.independent and g.results[0].numel <= g[name].numel)

    return rule


def _places(g: RuleInputs) -> Spread:
    """The spread of the positions that sort and topk return."""
    shape = g["input"].shape
    size = shape[g["dim"]] if shape else 1
    return Spread(0.0, size - 1.0, (size - 1) / 2, size / 12**0.5, False, is_whole=True)


def _positions(g: RuleInputs) -> Spread:
    """The spread of arange."""
    count, step = g.results[0].numel, g["step"]
    first, last = sorted((float(g["start"]), float(g["start"] + step * (max(count, 1) - 1))))
    deviation = abs(step) * ((count**2 - 1) / 12) ** 0.5 if count else 0.0
    is_whole = float(g["start"]).is_integer() and float(step).is_integer()
    return Spread(first, last, (first + last) / 2, deviation, False, is_whole=is_whole)


def _with_added(g: RuleInputs, name: str, most: int, total: int) -> Spread:
    """The spread of the input after values were added to some of its elements.

    Args:
        name: the parameter that holds the addends.
        most: addends that one element may get.
        total: addends that all elements get.
    """
    v, addend = g.of(), g.of(name)
    share = total / max(g["input"].numel, 1)
    low, high = v.low + most * min(addend.low, 0.0), v.high + most * max(addend.high, 0.0)
    deviation = (v.std**2 + share * addend.rms**2) ** 0.5
    is_whole = v.is_whole and addend.is_whole
    return Spread(low, high, v.mean + share * addend.mean, deviation, False, is_whole=is_whole)


def _scatter_add(g: RuleInputs) -> Spread:
    index = g["index"]
    most = index.shape[dim_index(g["dim"], index.rank)] if index.rank else 1
    return _with_added(g, "src", most, index.numel)


def _index_put(g: RuleInputs) -> Spread:
    if not g["accumulate"]:
        return mix(g.of(), g.of("values"))
    indices = [index for index in g["indices"] if index is not None]
    most = prod(broadcast(*(index.shape for index in indices)))
    kept = [n for n, index in zip(g["input"].shape, g["indices"], strict=False) if index is None]
    rest = g["input"].shape[len(g["indices"]) :]
    return _with_added(g, "values", most, most * prod(kept) * prod(rest))


def _one_hot(g: RuleInputs) -> Spread:
    classes = g.results[0].shape[-1]
    return coin(1 / classes)


def _average_pool(g: RuleInputs) -> Spread:
    count = prod(g["kernel_size"])
    v = average(g.of(), count)
    if any(g["padding"]) and g["count_include_pad"]:
        v = v._replace(low=min(v.low, 0.0), high=max(v.high, 0.0))
    divisor = g["divisor_override"] if len(g["kernel_size"]) > 1 else None
    return scale(v, count / divisor) if divisor else v


def _max_pool(g: RuleInputs) -> Spread:
    return extreme(g.of(), prod(g["kernel_size"]), 1)


def _interpolate(g: RuleInputs) -> Spread:
    v = g.of()._replace(independent=False)
    if g["mode"] != "bicubic":
        return v
    reach = (v.high - v.low) * (_OVERSHOOT - 1) / 2
    return v._replace(low=v.low - reach, high=v.high + reach)


def _dropout(g: RuleInputs) -> Spread:
    if not g["training"] or g["p"] == 0:
        return g.of()
    return with_zeros(scale(g.of(), 1 / (1 - g["p"]))) if g["p"] < 1 else point(0.0)


_SAME = (
    "transpose", "t", "permute", "reshape", "flatten", "squeeze", "unsqueeze", "slice", "select",
    "flip", "roll", "to_layout",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(("broadcast_to", "repeat", "unfold"), _repeated),
    **dict.fromkeys(("chunk", "split", "unbind"), _pieces),
    "pad": _pad,
    "cat": lambda g: mix(*g.sequence("tensors")),
    "stack": lambda g: mix(*g.sequence("tensors")),
    "zeros_like": lambda _: point(0.0),
    "ones_like": lambda _: point(1.0),
    "full_like": lambda g: point(float(g["fill_value"])),
    "triu": lambda g: with_zeros(g.of()),
    "tril": lambda g: with_zeros(g.of()),
    "embedding": _picked("weight"),
    "gather": _picked("input"),
    "index_select": _picked("input"),
    "index": _picked("input"),
    "sort": lambda g: (g.of(), _places(g)),
    "topk": lambda g: (g.of()._replace(independent=False), _places(g)),
    "scatter": lambda g: mix(g.of(), g.of("src")),
    "scatter_value": lambda g: mix(g.of(), point(float(g["value"]))),
    "scatter_add": _scatter_add,
    "index_put": _index_put,
    "select_scatter": lambda g: mix(g.of(), g.of("src")),
    "slice_scatter": lambda g: mix(g.of(), g.of("src")),
    "arange": _positions,
    "full": lambda g: point(float(g["fill_value"])),
    "take_along_dim": _picked("input"),
    "one_hot": _one_hot,
    **{f"avg_pool{d}d": _average_pool for d in (1, 2, 3)},
    **{f"max_pool{d}d": _max_pool for d in (1, 2, 3)},
    **{f"adaptive_avg_pool{d}d": lambda g: average(g.of(), g.count) for d in (1, 2, 3)},
    **{f"adaptive_max_pool{d}d": lambda g: extreme(g.of(), g.count, 1) for d in (1, 2, 3)},
    "interpolate": _interpolate,
    "dropout": _dropout,
    "rand_like": lambda _: uniform(0.0, 1.0),
    "randn_like": lambda _: normal(0.0, 1.0),
}
