"""Every pointwise operator has a Triton text, and the text is as accurate as PyTorch."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from judging import faults, strays

from kernelwright.ops.operator import Domain, Operator, ParameterKind, TensorType
from kernelwright.ops.registry import operators
from kernelwright.programs import reference
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init, Program, Ref
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.shared.contract import GuestCall
from kernelwright.teacher.text.expressions import is_pointwise
from kernelwright.teacher.writer import write

SHAPE = (3, 171)
OPERATORS = [op for op in operators().values() if op.family == "pointwise"]
DRAWS = {
    Domain.POSITIVE: Init("rand", 0.1, 3.0),
    Domain.NONZERO: Init("rand", 0.5, 2.0),
    Domain.UNIT: Init("rand", 0.05, 0.95),
}


def attributes(operator: Operator) -> Iterator[dict[str, Any]]:
    """Attribute values to try: each parameter's domain in turn, the others at their first."""
    given = [p for p in operator.params if p.kind is ParameterKind.ATTRIBUTE and p.domain]
    first: dict[str, Any] = {p.name: p.domain[0] for p in given}
    if operator.name == "masked_fill":
        first["value"] = 2  # as a tensor it must have no dimensions
    yield first
    for param in given:
        for value in param.domain[1:]:
            yield {**first, param.name: value}
    if operator.name == "pow":
        yield from ({"exponent": e} for e in (2, 3, 0.5, -0.5, -1, 1.7))
    if operator.name == "div":
        yield from ({"rounding_mode": mode} for mode in ("floor", "trunc"))


class Bench:
    """One program of many calls, over inputs that suit their domains."""

    def __init__(self, dtype: str, scale: float) -> None:
        self.builder, self.dtype, self.scale = Builder(), dtype, scale
        self.inputs: dict[tuple[str, str, int], Ref] = {}
        self.outputs: list[Ref] = []

    def input(self, domain: Domain, dtype: str, position: int) -> Ref:
        key = (domain.value, dtype, position)
        if key not in self.inputs:
            is_float = dtype.startswith(("float", "bfloat"))
            low = int(domain is Domain.NONZERO)  # a remainder of integers by zero is an error
            plain = Init("randn", 0.0, self.scale) if is_float else Init("randint", low, 5)
            if dtype == "bool":
                plain = Init("randint", 0, 2)
            init = DRAWS.get(domain, plain) if is_float else plain
            self.inputs[key] = self.builder.input(TensorType(SHAPE, dtype), init)
        return self.inputs[key]

    def call(self, operator: Operator, values: dict[str, Any]) -> bool:
        """Append a call with tensors for what `values` does not give; False if refused."""
        arguments = dict(values)
        tensors = [p for p in operator.params if p.kind is not ParameterKind.ATTRIBUTE]
        for position, param in enumerate(tensors):
            if param.name not in arguments:
                domain = operator.domains.get(param.name, Domain.ANY)
                dtype = "bool" if param.name in ("condition", "mask") else self.dtype
                arguments[param.name] = self.input(domain, dtype, position)
        try:
            self.outputs += self.builder.call(operator.name, **arguments)
        except ValueError:
            return False
        return True

    def program(self) -> Program:
        """All calls, and comparisons that tie the inputs' dimensions together."""
        inputs = list(self.inputs.values())
        for left, right in pairwise(inputs):
            self.outputs += self.builder.call("ne", input=left, other=right)
        return self.builder.program(self.outputs)


def test_every_pointwise_operator_has_an_expression():
    assert [op.name for op in OPERATORS if not is_pointwise(op.name)] == []


def test_the_operators_that_floats_allow_are_nearly_all():
    bench = Bench("float32", 1.0)
    refused = {op.name for op in OPERATORS if not bench.call(op, next(attributes(op)))}
    bits = {op.name for op in OPERATORS if op.name.startswith("bitwise")}
    assert refused == bits


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
def test_expressions_on_floats_are_as_accurate_as_pytorch(scale):
    bench = Bench("float32", scale)
    for operator in OPERATORS:
        for values in attributes(operator):
            bench.call(operator, values)
    program = bench.program()
    assert faults(program, write(program, limit=1, seed=0, precision="strict")) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "bool"])
def test_expressions_follow_pytorch_on_other_dtypes(dtype):
    bench = Bench(dtype, 1.0)
    for operator in OPERATORS:
        values = next(attributes(operator))
        if dtype in ("int64", "bool") and any(isinstance(v, float) for v in values.values()):
            continue
        if not (dtype == "bool" and operator.name in ("softsign", "pow")):  # undefined on CPU
            bench.call(operator, values)
    program = bench.program()
    candidates = write(program, limit=1, seed=0, precision="strict")
    assert faults(program, candidates) == []


def test_nan_passes_through_as_in_pytorch():
    bench = Bench("float32", 1.0)
    names = ("relu", "relu6", "hardtanh", "clamp", "maximum", "minimum", "leaky_relu", "elu",
             "hardswish", "hardsigmoid", "gelu", "threshold", "softplus")  # fmt: skip
    for name in names:
        bench.call(operators()[name], next(attributes(operators()[name])))
    program = bench.program()
    inputs = reference.make_inputs(program, 0)
    inputs[0][:, ::7] = float("nan")
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    with shared("cpu").guest() as guest:
        guest.load(candidate.source)
        made = guest.run("candidate", GuestCall(inputs, seed=0)).outputs
    wanted = reference.run(program, inputs)
    differ = [
        name
        for name, mine, theirs in zip(names, made, wanted, strict=False)
        if not torch.equal(mine.isnan(), theirs.isnan())
    ]
    assert differ == []


SPECIAL = torch.tensor([-1.0, 0.0, 2.0, 5.0, torch.nan, torch.inf, -torch.inf])


def special_strays(op: str, **attributes: Any) -> list[str]:
    builder = Builder()
    program = builder.program(
        builder.call(op, input=builder.input(TensorType(SPECIAL.shape)), **attributes)
    )
    return strays(program, [SPECIAL], write(program, limit=1))


@pytest.mark.parametrize(("low", "high"), [(3.0, 1.0), (1.0, 3.0), (None, 1.0), (1.0, None)])
def test_a_clamp_with_min_above_max_sets_all_to_max(low, high):
    assert special_strays("clamp", min=low, max=high) == []


@pytest.mark.parametrize(("low", "high"), [(float("nan"), 1.0), (None, float("nan"))])
def test_a_clamp_with_a_limit_of_nan_sets_all_to_nan(low, high):
    assert special_strays("clamp", min=low, max=high) == []


@pytest.mark.parametrize("exponent", [0, 0.0])
def test_a_power_of_zero_is_one_for_nan_and_infinity_too(exponent):
    assert special_strays("pow", exponent=exponent) == []
