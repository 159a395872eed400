"""Choosing how program inputs are drawn, so that a program tested on them is tested well.

Never ones or zeros: those hide missing multiplications and additions.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from kernelwright.ops.operator import Domain, TensorType
from kernelwright.ops.traits import Trait
from kernelwright.programs.build import default_init
from kernelwright.programs.program import Call, Init, Input, Program, Ref

_BY_DOMAIN = {
    Domain.POSITIVE: Init("rand", 0.5, 2.0),
    Domain.NONZERO: Init("rand", 0.5, 2.0),
    Domain.UNIT: Init("rand", 0.05, 0.95),
    Domain.LOG_PROB: Init("rand", -4.0, -0.1),
    Domain.SIGN: Init("sign"),
    Domain.BOOL: Init("randint", 0, 2),
}
_POSITIVE = Init("rand", 0.5, 1.5)
"""The draw of norm weights and running variances: away from 0, and not 1."""
_SMALL = Init("randn", 0.0, 0.1)
"""The draw of biases and running means."""
_BAGS = "aten._embedding_bag"
"""The extern call that sums groups of rows of a table."""


def init_for_domain(domain: Domain, made: TensorType, bound: int | None = None) -> Init:
    """A draw within an operator's domain; `bound` is the exclusive bound of indices."""
    draw = default_init(made)
    if domain is Domain.INDEX and draw.kind != "randint":
        return _BY_DOMAIN[Domain.UNIT]  # probabilities in the place of indices
    if domain is Domain.INDEX:
        return Init("randint", 0, bound or 2)
    if domain in (Domain.POSITIVE, Domain.NONZERO) and made.dtype.startswith(("int", "uint")):
        return Init("randint", 1, 9)
    is_drawable = draw.kind == "randn" or domain in (Domain.SIGN, Domain.BOOL)
    return _BY_DOMAIN.get(domain, draw) if is_drawable else draw


class Uses:
    """The calls that read each value of a program, and their demands on the values drawn for it."""

    def __init__(self, program: Program) -> None:
        self.program, self._users = program, program.users()

    def of(self, name: str) -> Iterator[tuple[Call, str]]:
        """(call, parameter) of each use of a value, seen through reshapes and the like."""
        pending, seen = [name], {name}
        while pending:
            current = Ref(pending.pop())
            for call in (self.program.calls[i] for i in self._users[current.name]):
                if not call.is_extern and call.operator.family == "shape":
                    pending.extend(output for output in call.outputs if output not in seen)
                    seen.update(call.outputs)
                    continue
                for parameter, value in call.args:
                    if current in (value if isinstance(value, tuple) else (value,)):
                        yield call, parameter

    def init(self, name: str) -> Init | None:
        """A draw within the domains of the operators that read the value; None without a domain.

        If the value is an index into several tables, the smallest table sets the bound.
        """
        result_type = self.program.type_of(name)
        inits: list[Init] = []
        for call, parameter in self.of(name):
            if call.op.startswith(_BAGS) and parameter == "offsets":
                # Offsets begin with 0 and are sorted. With zeros, all rows are in the last group.
                return Init("randint", 0, 1)
            if call.op.startswith(_BAGS) and parameter == "indices":
                num_rows = self.program.type_of(dict(call.args)["weight"].name).shape[0]
                inits.append(Init("randint", 0, num_rows))
            if call.is_extern or parameter not in call.operator.domains:
                continue
            types = self.program.bound(call)
            domain = call.operator.domain(parameter, types)
            bound = None
            if domain is Domain.INDEX and call.operator.index_bound is not None:
                bound = call.operator.index_bound(types)
            if domain is not Domain.ANY:
                inits.append(init_for_domain(domain, result_type, bound))
        draws = [init for init in inits if init.kind == "randint"]
        if draws:
            return min(draws, key=lambda init: init.high)
        return inits[0] if inits else None

    def fan_in(self, name: str) -> int | None:
        """The number of products with this value that are summed for one result.

        None if the value is no factor of a matrix product, convolution or the like.
        """
        shape = self.program.type_of(name).shape
        for call, parameter in self.of(name) if len(shape) > 1 else ():
            if call.is_extern or call.is_product:
                return _terms(call, parameter, shape)
        return None


def choose_inits(program: Program, names: Sequence[str], examples: Sequence[Any]) -> Program:
    """The program with each input's draw chosen by its uses, its name and an example value.

    Args:
        names: of parameters and buffers; "" for other inputs.
        examples: a tensor or None for each input; integers stay within what an example holds.
    """
    uses = Uses(program)
    inputs = tuple(
        replace(value, init=choose_init(uses, value, name, example))
        for value, name, example in zip(program.inputs, names, examples, strict=True)
    )
    return replace(program, inputs=inputs)


def choose_init(uses: Uses, value: Input, name: str, example: Any = None) -> Init:
    """The draw of one input; see `choose_inits`."""
    input_type = value.type
    if (init := uses.init(value.name)) is not None:
        return init
    default = default_init(input_type)
    if default.kind == "randint":  # a boolean buffer is a mask, even if it is named "bias"
        is_real = isinstance(example, torch.Tensor) and not isinstance(example, FakeTensor)
        if is_real and not example.is_meta and example.numel():
            return Init("randint", 0, max(int(example.max()) + 1, 2))
        return default
    return _weight(uses, value, name.rpartition(".")[2]) if name else default


def _weight(uses: Uses, value: Input, name: str) -> Init:
    """The draw of a floating parameter or buffer: contracted ones keep the scale of what they
    multiply."""
    if "bias" in name or "mean" in name:
        return _SMALL
    if any(call.op == "embedding" for call, _ in uses.of(value.name)):
        return Init("randn")
    if terms := uses.fan_in(value.name):
        return Init("randn", 0.0, float(f"{1 / math.sqrt(terms):.3g}"))
    return _POSITIVE


def _terms(call: Call, parameter: str, shape: tuple[int, ...]) -> int:
    if call.has(Trait.TRANSPOSED):
        return shape[0] * math.prod(shape[2:])
    if call.is_product and call.operator.family == "convolution":
        return math.prod(shape[1:])
    is_right = parameter in ("other", "mat2", "batch2")
    return shape[-2] if is_right else shape[-1]
