"""A program: a flat DAG of operator calls over typed values.

Values have names: inputs `x0, x1, ...`, results `t0, t1, ...`. Calls are in execution order. The
canonical text (programs/text.py) is this and nothing more.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelwright.ops.operator import Numerics, Operator, TensorType
from kernelwright.ops.registry import operators
from kernelwright.ops.traits import Trait
from kernelwright.programs import extern


@dataclass(frozen=True, slots=True)
class Ref:
    """A use of a value, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Init:
    """How `get_inputs` makes an input: the text of the draw, as data."""

    kind: str
    """"randn", "rand", "ones", "zeros", "randint" or "sign" (random -1 and +1)."""
    low: float = 0.0
    high: float = 1.0
    """randint draws from [low, high); rand from [low, high); randn scales by high and adds low."""


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    type: TensorType
    init: Init = Init("randn")


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call. `args` holds every parameter that is not at its default, in the
    operator's order; tensors are `Ref`s (or tuples of them)."""

    op: str
    """Name of an operator record, or an ATen overload ("aten.sort.default"): an extern call."""
    args: tuple[tuple[str, Any], ...]
    outputs: tuple[str, ...]
    types: tuple[TensorType, ...]

    @property
    def is_extern(self) -> bool:
        """No record: opaque, never fused and named in reports."""
        return self.op not in operators()

    @property
    def operator(self) -> Operator:
        return operators()[self.op]

    def has(self, trait: Trait) -> bool:
        """Whether the operator has the trait; extern calls have none."""
        return not self.is_extern and trait in self.operator.traits

    @property
    def is_product(self) -> bool:
        """A sum of products: of matrices, a convolution, attention."""
        return not self.is_extern and self.operator.numerics is Numerics.CONTRACTION

    @property
    def makes_of_nothing(self) -> bool:
        """It takes no tensor that could say on which device the result is to be."""
        if self.is_extern:
            return extern.makes_of_nothing(self.op)
        return not self.operator.reads_tensors

    @property
    def is_random(self) -> bool:
        """Draws from the generator."""
        if self.is_extern:
            return extern.is_random(self.op, dict(self.args))
        return self.operator.numerics is Numerics.RANDOM

    def arg(self, name: str) -> Any:
        """Value of a parameter, its default where the call does not give it."""
        for key, value in self.args:
            if key == name:
                return value
        return self.operator.param(name).default

    def refs(self) -> Iterator[str]:
        """Names of the values it reads, in argument order, repeats included."""
        for _, value in self.args:
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Ref):
                    yield item.name


@dataclass(frozen=True, slots=True)
class Program:
    inputs: tuple[Input, ...]
    calls: tuple[Call, ...]
    outputs: tuple[str, ...]
    """Names of the returned values; inputs may be among them."""
    _types: Mapping[str, TensorType] = field(init=False, repr=False, compare=False)
    _producer: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Made once: the teacher asks for it at each value of each kernel that it tries."""
    _feeding: tuple[frozenset[int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        types: dict[str, TensorType] = {}
        producer: dict[str, int] = {}
        feeding: list[frozenset[int]] = []
        for value in self.inputs:
            _declare(types, value.name, value.type)
        for i, call in enumerate(self.calls):
            names = list(call.refs())
            for name in names:
                if name not in types:
                    raise ValueError(f"{call.op} reads {name!r} before it is made")
            feeding.append(frozenset([producer[name] for name in names if name in producer]))
            for name, result_type in zip(call.outputs, call.types, strict=True):
                _declare(types, name, result_type)
                producer[name] = i
        for name in self.outputs:
            if name not in types:
                raise ValueError(f"output {name!r} is never made")
        object.__setattr__(self, "_types", types)
        object.__setattr__(self, "_producer", producer)
        object.__setattr__(self, "_feeding", tuple(feeding))

    def type_of(self, name: str) -> TensorType:
        return self._types[name]

    def bound(self, call: Call) -> dict[str, Any]:
        """The call's parameters as the operator's rules take them: types in place of refs. Those of
        an extern call are the ones it gives."""
        values = {} if call.is_extern else {p.name: p.default for p in call.operator.params}
        for key, value in call.args:
            values[key] = self._typed(value)
        return values

    def _typed(self, value: Any) -> Any:
        """The argument with types in place of refs; a tuple may mix them with None and numbers."""
        if isinstance(value, Ref):
            return self._types[value.name]
        return tuple(map(self._typed, value)) if isinstance(value, tuple) else value

    def producer(self) -> Mapping[str, int]:
        """Result name -> index of the call that makes it."""
        return self._producer

    def feeding(self) -> tuple[frozenset[int], ...]:
        """For each call, the indices of the calls whose results it reads."""
        return self._feeding

    def title(self, values: Collection[str]) -> str:
        """`lerp_t5`: names what computes some values after the operator that makes the last of
        them. No other part of a program has that title."""
        call = next(call for call in reversed(self.calls) if set(call.outputs) & set(values))
        last = [name for name in call.outputs if name in values][-1]
        return f"{call.op.replace('.', '_')}_{last}"

    def users(self) -> dict[str, list[int]]:
        """Value name -> indices of the calls that read it, ascending."""
        table: dict[str, list[int]] = {name: [] for name in self._types}
        for i, call in enumerate(self.calls):
            for name in dict.fromkeys(call.refs()):
                table[name].append(i)
        return table

    def flops(self) -> int:
        return sum(map(self.flops_of, self.calls))

    def flops_of(self, call: Call) -> int:
        """The FLOPs of one of its calls."""
        if call.is_extern:
            return extern.flops(call.op, self.bound(call))
        return call.operator.flops(self.bound(call), call.types)

    def bytes_unfused(self) -> int:
        """Device-memory traffic if every call reads its inputs and writes its outputs once."""
        return sum(map(self.bytes_of, self.calls))

    def bytes_of(self, call: Call) -> int:
        """Traffic of one of its calls."""
        if not call.is_extern:
            return call.operator.bytes_moved(self.bound(call), call.types)
        return sum(self._types[name].num_bytes for name in {*call.refs(), *call.outputs})

    def bytes_fused(self) -> int:
        """Traffic of one perfect kernel: each input read once, each output written once."""
        return sum(i.type.num_bytes for i in self.inputs) + sum(
            self._types[name].num_bytes for name in dict.fromkeys(self.outputs)
        )


def _declare(types: dict[str, TensorType], name: str, made: TensorType) -> None:
    if name in types:
        raise ValueError(f"{name!r} is made twice")
    types[name] = made
