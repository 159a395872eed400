"""The calls between a product and a sum over its result: scaling and shifting.

A sum commutes with a factor that is constant along the summed axes. An added value is summed too.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

from kernelwright.ops.operator import Numerics
from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.site import Site, is_float
from kernelwright.programs.dataflow import axes_of, is_flat, operands, rounds_quotient, summed_axes
from kernelwright.programs.program import Call, Ref

_ADDING, _SCALING = names_with(Trait.ADDS), names_with(Trait.SCALES)


@dataclass(frozen=True, slots=True)
class ChainSum:
    """A sum or a mean over some axes of a value."""

    op: str
    """"sum" or "mean"."""
    value: Ref
    axes: frozenset[int]


def sum_at(site: Site) -> ChainSum | None:
    """The sum that a call takes in its input's own float dtype, global pooling included."""
    axes = summed_axes(site.flow, site.call)
    if not axes or not is_float(site.call.types[0]):
        return None
    value = site.call.arg("input")
    is_cast = site.type_of(value).dtype != site.call.types[0].dtype
    op = "sum" if site.call.op == "sum" else "mean"
    return None if is_cast else ChainSum(op, value, axes)


def placed(site: Site, made: Ref) -> Ref:
    """A sum whose axes stay, of size 1, in the shape that the call has; without sizes spelled out,
    so that the program fits other sizes too."""
    call = site.call
    rank = len(site.shape(made))
    if call.types[0].rank == rank:
        return made
    return site.emit("squeeze", input=made, dim=axes_of(call.arg("dim"), rank))


@dataclass(frozen=True, slots=True)
class Chain:
    """A product and the calls that scale and shift it, the last one first."""

    product: Call
    steps: tuple[Call, ...]

    def behind(self, site: Site, reduced: Ref, op: str, axes: frozenset[int]) -> Ref:
        """The result of the steps when they are applied to the product's sum.

        `reduced` and the result have size 1 along `axes`.
        """
        for step in reversed(self.steps):
            whole, _ = operands(site.flow, step)
            values = dict(step.args)
            for name in ("input", "other"):
                if values.get(name) == whole[0]:
                    values[name] = reduced
                # A factor is the same along the axes, so it stays. A term that is added to every
                # element is added to the sum once for each element.
                elif step.op in _ADDING:
                    values[name] = summed(site, values[name], step.types[0].shape, op, axes)
            reduced = site.emit(step.op, **values)
        return reduced


def chain_to(site: Site, value: Any, axes: frozenset[int], *, flat: bool = False) -> Chain | None:
    """The chain from a value back to a product, if nothing else reads the values between.

    None if there is no such product.

    Args:
        flat: added terms must be constant along the axes too, not only factors.
    """
    steps: list[Call] = []
    reader = site.index
    while (index := site.lone_maker(value, reader)) is not None:
        call = site.flow.program.calls[index]
        if call.operator.numerics is Numerics.CONTRACTION:
            return None if _has_padding_by_name(call) else Chain(call, tuple(steps))
        value = _passed(site, call, axes, flat=flat)
        steps.append(call)
        reader = index
    return None


def _has_padding_by_name(product: Call) -> bool:
    """A convolution whose padding is "same", say, and not given in numbers."""
    return product.operator.family == "convolution" and isinstance(product.arg("padding"), str)


def _passed(site: Site, call: Call, axes: frozenset[int], *, flat: bool) -> Ref | None:
    """The operand that a call scales or shifts, with the shape and dtype of the result.

    None if the call does something else, or scales unevenly along the axes.
    """
    if call.op not in _ADDING | _SCALING:
        return None
    whole, rest = operands(site.flow, call)
    if len(whole) != 1 or site.type_of(whole[0]).dtype != call.types[0].dtype:
        return None
    is_scale = call.op in _SCALING
    is_divisor = is_scale and not call.operator.commutes and whole[0] != call.arg("input")
    if is_divisor or rounds_quotient(call):
        return None
    if not is_scale and call.arg("alpha") != 1:
        return None
    must_be_flat = is_scale or flat
    if must_be_flat and not all(is_flat(site.flow, other, call, axes) for other in rest):
        return None
    return whole[0]


def summed(site: Site, value: Any, shape: tuple[int, ...], op: str, axes: frozenset[int]) -> Any:
    """Sum or mean over `axes` of a number or tensor that is broadcast to `shape`; the axes stay,
    of size 1."""
    own: tuple[int, ...] = site.shape(value) if isinstance(value, Ref) else ()
    first = len(shape) - len(own)
    dims = tuple(sorted(axis - first for axis in axes if axis >= first and own[axis - first] > 1))
    if dims:
        value = site.emit(op, input=value, dim=dims, keepdim=True)
    # Along an axis that the value does not have, broadcasting repeats the value.
    repeats = prod(shape[axis] for axis in axes if axis - first not in dims)
    if op == "mean" or repeats == 1:
        return value
    if not isinstance(value, Ref):
        return value * repeats
    return site.emit("mul", input=value, other=repeats)
