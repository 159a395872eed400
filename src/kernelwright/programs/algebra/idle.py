"""Operators that change nothing, or the same thing twice."""

from math import inf, prod
from typing import Any

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.site import Site, is_float
from kernelwright.programs.dataflow import axes_of, rounds_quotient
from kernelwright.programs.draws.ranges import idle_range, value_range
from kernelwright.programs.program import Call, Ref

_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
"""Dtype -> those that hold all its values."""


def neutral_number(site: Site) -> tuple[Ref, ...] | None:
    """x + 0, x - 0, x * 1, x / 1, x ** 1."""
    call = site.call
    neutral = None if call.is_extern else call.operator.neutral
    if neutral is None:
        return None
    other = call.arg(call.operator.params[1].name)
    if isinstance(other, Ref) or other != neutral:
        is_first = bool(call.operator.commutes) and call.arg("input") == neutral
        return (other,) if is_first and isinstance(other, Ref) and _alpha(call) == 1 else None
    value = call.arg("input")
    return (value,) if isinstance(value, Ref) and not rounds_quotient(call) else None


def _alpha(call: Call) -> Any:
    return call.arg("alpha") if call.has(Trait.SHIFTS) else 1


def idle_activation(site: Site) -> tuple[Ref, ...] | None:
    """ReLU of a ReLU, the absolute value of a square, a clamp of what lies within already."""
    passed = idle_range(site.call)
    if passed is None or (before := site.maker(site.call.arg("input"))) is None:
        return None
    if before.operator.family == "random" or _has_domain(site, before):
        return None  # the range would be that of usual values, not of all
    low, high = value_range(site.flow.program, before)
    return (site.call.arg("input"),) if low >= passed[0] and high <= passed[1] else None


def _has_domain(site: Site, call: Call) -> bool:
    bound = site.flow.program.bound(call)
    applies = call.operator.domains_apply
    return bool(call.operator.domains) and (applies is None or applies(bound))


def nested_clamp(site: Site) -> tuple[Ref, ...] | None:
    """Two clamps (ReLU, ReLU6 and hardtanh are some) as one with the limits of both."""
    outer = _limits(site.call)
    inner = site.lone_maker(site.call.arg("input")) if outer else None
    if outer is None or inner is None:
        return None
    first = site.flow.program.calls[inner]
    if (limits := _limits(first)) is None or limits[0] > limits[1] or outer[0] > outer[1]:
        return None
    low, high = (min(max(limit, outer[0]), outer[1]) for limit in limits)
    bounds = {"min": None if low == -inf else low, "max": None if high == inf else high}
    return (site.emit("clamp", input=first.arg("input"), **bounds),)


def settled_clamp(site: Site) -> tuple[Ref, ...] | None:
    """A clamp whose limits leave one value. Its shape is told from the first value that has it, so
    that what lies in between need not be computed."""
    limits = _limits(site.call)
    if limits is None or not limits[0] >= limits[1] or not is_float(site.call.types[0]):
        return None  # NaN is no limit
    shaped = site.call.arg("input")
    while (before := site.maker(shaped)) is not None:
        bounding = [value for name in before.refs() if site.is_alike(value := Ref(name), shaped)]
        if not bounding:
            break
        shaped = bounding[0]
    return (site.emit("full_like", input=shaped, fill_value=limits[1]),)


def _limits(call: Call) -> tuple[float, float] | None:
    if not call.has(Trait.CLAMPS):
        return None
    low, high = idle_range(call) or (-inf, inf)
    return None if isinstance(low, Ref) or isinstance(high, Ref) else (low, high)


def idle_dropout(site: Site) -> tuple[Ref, ...] | None:
    """Dropout that is not training, or drops nothing."""
    call = site.call
    is_idle = call.op == "dropout" and (not call.arg("training") or call.arg("p") == 0)
    return (call.arg("input"),) if is_idle else None


def double_negation(site: Site) -> tuple[Ref, ...] | None:
    """-(-x), and the logical and bitwise kind."""
    if not site.call.has(Trait.UNDOES_ITSELF):
        return None
    before = site.maker(site.call.arg("input"))
    return (before.arg("input"),) if before and before.op == site.call.op else None


def idle_cast(site: Site) -> tuple[Ref, ...] | None:
    """To the dtype that the value has, or to a wider one and back."""
    if site.call.op != "to_dtype":
        return None
    value, dtype = site.call.arg("input"), site.call.arg("dtype")
    if site.type_of(value).dtype == dtype:
        return (value,)
    before = site.maker(value)
    if before is None or before.op != "to_dtype":
        return None
    first = before.arg("input")
    is_back = site.type_of(first).dtype == dtype
    return (first,) if is_back and before.arg("dtype") in _WIDER.get(dtype, ()) else None


def _squeezed(site: Site, value: Ref, axes: tuple[int, ...]) -> Ref:
    return site.emit("squeeze", input=value, dim=axes)


def single_element(site: Site) -> tuple[Ref, ...] | None:
    """Sums, means, extremes, norms and softmaxes over dimensions of size 1."""
    call = site.call
    if not call.has(Trait.KNOWN_OF_ONE):
        return None
    value = call.arg("input")
    shape = site.shape(value)
    axes = axes_of(call.arg("dim"), len(shape)) if shape else ()
    if not is_float(site.type_of(value)) or prod(shape[axis] for axis in axes) != 1:
        return None
    if call.has(Trait.SOFTMAX):
        return (site.emit("ones_like" if call.op == "softmax" else "zeros_like", input=value),)
    if call.op == "norm":
        if call.arg("ord") not in (1, 2, inf) or call.arg("dtype") is not None:
            return None
        value = site.emit("abs", input=value)
    result = value if site.shape(value) == call.types[0].shape else _squeezed(site, value, axes)
    if len(call.outputs) == 1:
        return (result,)
    return result, site.emit("zeros_like", input=result, dtype="int64")
