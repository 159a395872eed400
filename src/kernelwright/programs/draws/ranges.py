"""The ranges of a program's values, derived from the draws of its inputs without a run.

The rules of single operators are in `ops.ranges`. A practical analysis (see there): ranges hold for
nearly every element of nearly every draw.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from kernelwright.ops.operator import Bound, Domain, TensorType
from kernelwright.ops.ranges.spread import ANYTHING, OutOfDomain, Spread, normal, point, uniform
from kernelwright.ops.ranges.table import result_spreads
from kernelwright.programs.program import Call, Init, Program, Ref

Range = tuple[float, float]

_POSITIVE = Spread(1e-30, 1e30, 1.0, 1e20, False)


def drawn(init: Init) -> Spread:
    """The range of an input's elements."""
    low, high = float(init.low), float(init.high)
    match init.kind:
        case "randn":
            return normal(low, high)
        case "rand":
            return uniform(low, high)
        case "randint":
            middle, deviation = (low + high - 1) / 2, ((high - low) ** 2 - 1) ** 0.5 / 12**0.5
            return Spread(low, high - 1, middle, deviation, is_whole=low.is_integer())
        case "sign":
            return Spread(-1.0, 1.0, 0.0, 1.0, is_whole=True)
    return point(float(init.kind == "ones"))


def call_spreads(program: Program) -> Iterator[tuple[Call, tuple[Spread, ...]]]:
    """Yields (call, spreads of its results) in order. Results of externs may be anything.

    Raises:
        OutOfDomain: a call reads values for which its operator is not defined.
    """
    known = {value.name: drawn(value.init) for value in program.inputs}
    for call in program.calls:
        if call.is_extern:
            spreads: tuple[Spread, ...] = (ANYTHING,) * len(call.outputs)
        else:
            bound = program.bound(call)
            ranges = _given(call, known)
            _check_domains(program, call, bound, ranges)
            spreads = result_spreads(call.operator, bound, ranges, call.types)
        known.update(zip(call.outputs, spreads, strict=True))
        yield call, spreads


def _given(call: Call, known: Mapping[str, Spread]) -> dict[str, Any]:
    spreads: dict[str, Any] = {}
    for name, value in call.args:
        if isinstance(value, Ref):
            spreads[name] = known[value.name]
        elif isinstance(value, tuple) and (names := _names(value)):
            spreads[name] = tuple(known[item] for item in names)
    return spreads


def _names(values: tuple[Any, ...]) -> list[str]:
    """The names of the tensors in a sequence, which may hold None too."""
    return [item.name for item in values if isinstance(item, Ref)]


def _check_domains(program: Program, call: Call, bound: Bound, given: Mapping[str, Any]) -> None:
    """Check the arguments of operators that have no rule for their domain."""
    operator = call.operator
    if operator.family == "pointwise":
        return
    for name in operator.domains:
        if name not in given:
            continue
        domain = operator.domain(name, bound)
        for v in given[name] if isinstance(bound[name], tuple) else (given[name],):
            if domain is Domain.SIGN:
                is_inside = _is_sign(program, dict(call.args)[name].name)
            elif domain is Domain.INDEX:
                limit = operator.index_bound(bound) if operator.index_bound else inf
                is_inside = v.low >= 0 and v.high < limit
            else:
                low, high = _LIMITS[domain]
                is_inside = low <= v.low and v.high <= high
            if not is_inside:
                where = f"{call.op}: {name} from {v.low:.3g} to {v.high:.3g}"
                raise OutOfDomain(f"{where} where it must be {domain.value}")


_LIMITS: dict[Domain, Range] = {
    Domain.ANY: (-inf, inf),
    Domain.POSITIVE: (0.0, inf),
    Domain.NONZERO: (-inf, inf),
    Domain.UNIT: (0.0, 1.0),
    Domain.LOG_PROB: (-inf, 0.0),
    Domain.BOOL: (0.0, 1.0),
}


def _is_sign(program: Program, name: str) -> bool:
    """Whether a value is -1 or 1 everywhere: drawn so, or a sign, reshaped or not."""
    producer = program.producer()
    while name in producer:
        call = program.calls[producer[name]]
        if call.is_extern or call.operator.family != "shape":
            return call.op == "sign"
        name = next(call.refs(), "")
    return any(value.name == name and value.init.kind == "sign" for value in program.inputs)


def value_range(program: Program, call: Call) -> Range:
    """The range of a call's first result that follows from the call alone, for any input."""
    if call.is_extern:
        return (-inf, inf)
    bound = program.bound(call)
    spreads: dict[str, Any] = {}
    for name, value in bound.items():
        if isinstance(value, TensorType):
            is_positive = call.operator.domain(name, bound) is Domain.POSITIVE
            spreads[name] = _POSITIVE if is_positive else ANYTHING
        elif isinstance(value, tuple):
            types = [item for item in value if isinstance(item, TensorType)]
            spreads |= {name: (ANYTHING,) * len(types)} if types else {}
    try:
        first = result_spreads(call.operator, bound, spreads, call.types)[0]
    except OutOfDomain:
        return (-inf, inf)
    return first.low, first.high


def idle_range(call: Call) -> Range | None:
    """The range of inputs that the call returns unchanged; None if it has no such range.

    An example is relu for inputs of at least 0.
    """
    if call.is_extern or call.operator.unchanged is None:
        return None
    low, high = (
        call.arg(limit) if isinstance(limit, str) else limit for limit in call.operator.unchanged
    )
    return (-inf if low is None else low, inf if high is None else high)
