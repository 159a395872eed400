"""Ranges that pointwise operators keep their results in, for any input."""

from math import inf
from typing import Any

from kernelwright.programs.program import Call

Range = tuple[float, float]

_RANGES: dict[str, Range] = {
    "relu": (0, inf),
    "sigmoid": (0, 1),
    "tanh": (-1, 1),
    "erf": (-1, 1),
    "softsign": (-1, 1),
    "hardsigmoid": (0, 1),
    "softplus": (0, inf),
    "logsigmoid": (-inf, 0),
    "exp": (0, inf),
    "exp2": (0, inf),
    "sqrt": (0, inf),
    "rsqrt": (0, inf),
    "abs": (0, inf),
    "square": (0, inf),
    "sin": (-1, 1),
    "cos": (-1, 1),
    "sign": (-1, 1),
    "softmax": (0, 1),
    "log_softmax": (-inf, 0),
    "norm": (0, inf),
    "std": (0, inf),
    "var": (0, inf),
}
_ANY: Range = (-inf, inf)


def value_range(call: Call) -> Range:
    """The range of a call's results that follows from the call alone."""
    if call.is_extern:
        return _ANY
    return _clamped(call) or _RANGES.get(call.op, _ANY)


def idle_range(call: Call) -> Range | None:
    """Inputs that the call passes on as they are, for any of which it has no use."""
    if call.op in ("abs", "leaky_relu", "elu", "celu"):
        return (0, inf)
    return _RANGES["relu"] if call.op == "relu" else _clamped(call)


def _clamped(call: Call) -> Range | None:
    """Limits of an operator that clamps to them."""
    if call.op == "relu6":
        return (0, 6)
    if call.op == "hardtanh":
        return (call.arg("min_val"), call.arg("max_val"))
    if call.op == "clamp":
        return _bounds(call.arg("min"), call.arg("max"))
    return None


def _bounds(low: Any, high: Any) -> Range | None:
    """None where a bound is a tensor."""
    numbers = [value for value in (low, high) if value is not None]
    if not all(isinstance(value, int | float) for value in numbers):
        return None
    return (-inf if low is None else low, inf if high is None else high)
