"""Interpolation: each output weighs the inputs around its place in the input."""

from itertools import product

from kernelwright.programs.program import Call
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import Dim, Index

_LINEAR = ("linear", "bilinear", "trilinear")
_CUBIC = -0.75
"""The parameter of PyTorch's cubic convolution."""


Tap = tuple[str, str]
"""The position of an input that counts along a dimension, and its weight; "" for a weight of 1."""


def interpolate(body: TileBody, call: Call, index: Index, _: int) -> str:
    """The rule of interpolate: the sum of all combinations of taps, each with its weight.

    Raises:
        NotWritable: the mode is "area", or `antialias` is set.
    """
    mode = call.arg("mode")
    # Both weigh windows whose length depends on the sizes; the rules here have fixed numbers of
    # taps.
    if call.arg("antialias") or mode == "area":
        raise NotWritable(f"interpolate with mode {mode!r} and antialias {call.arg('antialias')}")
    value = body.operand(call)
    columns = [_taps(body, call, at, index[at]) for at in range(2, len(index))]
    terms = []
    for taps in product(*columns):
        moved = (*index[:2], *(dim for dim, _ in taps))
        text = body.value(value, moved)
        terms.append(" * ".join([text, *(weight for _, weight in taps if weight)]))
    return body.line(call, " + ".join(terms), index)


def _taps(body: TileBody, call: Call, at: int, dim: Dim) -> list[tuple[Dim, str]]:
    """(positions, text of the weight) of each tap along one dimension; "" is a weight of 1."""
    value = body.operand(call)
    size, length = body.sizes.of(value)[at], body.shape(value)[at]
    mode = call.arg("mode")
    # All taps along a dimension of size 1 are its one element, and their weights add up to 1.
    if length == 1:
        return [((), "")]
    rule = _linear if mode in _LINEAR else _cubic if mode == "bicubic" else _nearest
    conditions = body.conditions(dim)
    return [
        (body.position(position, size, length, conditions), weight)
        for position, weight in rule(body, call, at, dim)
    ]


def _scale(body: TileBody, call: Call, at: int) -> str:
    """Symbol of the scale: the distance in the input between two neighbouring outputs."""
    # As in PyTorch, a scale factor of the call counts, not the ratio of the rounded sizes.
    size, out_size = body.sizes.of(body.operand(call))[at], body.sizes.of(call.outputs[0])[at]
    if call.arg("align_corners"):
        text = f"({size} - 1) / max({out_size} - 1, 1)"
    elif call.arg("scale_factor") is not None:
        factor = call.arg("scale_factor")
        text = f"1.0 / {factor[at - 2] if isinstance(factor, tuple) else factor}"
    else:
        text = f"{size} / {out_size}"
    return body.sizes.symbol(text, f"{call.outputs[0]}SCALE{at}")


def _output_place(body: TileBody, dim: Dim) -> str:
    """The place of the output: a tensor also where it is 0, as Triton's interpreter multiplies
    numbers to a float of Python, which has no `.to`."""
    return body.text(dim) if dim else "tl.full((), 0, tl.int32)"


def _nearest(body: TileBody, call: Call, at: int, dim: Dim) -> list[Tap]:
    size, scale = body.sizes.of(body.operand(call))[at], _scale(body, call, at)
    place = _output_place(body, dim)
    # "nearest-exact" takes the centre of the output's pixel, "nearest" its first edge.
    if call.arg("mode") == "nearest-exact":
        place = f"({place} + 0.5)"
    # The rounded product may pass the last input.
    return [(f"tl.minimum(({place} * {scale}).to(tl.int32), {size} - 1)", "")]


def _place(body: TileBody, call: Call, at: int, dim: Dim) -> str:
    """Variable of the output's place in the input, a real number between two inputs."""
    scale, position = _scale(body, call, at), _output_place(body, dim)
    if call.arg("align_corners"):
        return body.assign(f"{position} * {scale}", "place")
    return body.assign(f"({position} + 0.5) * {scale} - 0.5", "place")


def _linear(body: TileBody, call: Call, at: int, dim: Dim) -> list[Tap]:
    size = body.sizes.of(body.operand(call))[at]
    # PyTorch moves places before the first input to the first input, except in cubic mode.
    place = body.assign(f"tl.maximum({_place(body, call, at, dim)}, 0.0)", "place")
    first = body.assign(f"tl.minimum({place}.to(tl.int32), {size} - 1)", "first")
    # At the last input `first` is cut down, so the share could be above 1.
    share = body.assign(f"tl.clamp({place} - {first}, 0.0, 1.0)", "share")
    return [(first, f"(1 - {share})"), (f"tl.minimum({first} + 1, {size} - 1)", share)]


def _cubic(body: TileBody, call: Call, at: int, dim: Dim) -> list[Tap]:
    """Four taps with the weights of cubic convolution (Keys, 1981) with a = -0.75."""
    size, place = body.sizes.of(body.operand(call))[at], _place(body, call, at, dim)
    first = body.assign(f"tl.floor({place})", "first")
    share = body.assign(f"{place} - {first}", "share")
    taps = []
    for step in (-1, 0, 1, 2):
        distance = body.assign(f"tl.abs({share} - {step})" if step else share, "distance")
        position = f"tl.clamp({first} + {step}, 0.0, {size} - 1.0).to(tl.int32)"
        # Taps 0 and 1 are at most 1 away, the other two between 1 and 2: Keys has a polynomial for
        # each.
        formula = _NEAR if step in (0, 1) else _FAR
        weight = body.assign(formula.format(x=distance, a=_CUBIC), "weight")
        taps.append((position, weight))
    return taps


_NEAR = "(({a} + 2) * {x} - ({a} + 3)) * {x} * {x} + 1"
_FAR = "(({a} * {x} - 5 * {a}) * {x} + 8 * {a}) * {x} - 4 * {a}"
