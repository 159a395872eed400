"""A call under a rewriting: what made its operands, and the calls that may take its place."""

from collections.abc import Callable
from typing import Any

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import typed_call
from kernelwright.programs.dataflow import Dataflow
from kernelwright.programs.program import Call, Ref

_FRESH = "r"
"""First letter of new values; canonical programs have none of this."""


class Site:
    """One call of a canonical program, to be rewritten by a rule.

    Old values keep their names and new values get fresh names, so a rule may use both.
    """

    def __init__(self, flow: Dataflow, index: int) -> None:
        self.flow, self.index = flow, index
        self.call: Call = flow.program.calls[index]
        self.added: list[Call] = []
        self._types: dict[str, TensorType] = {}

    def type_of(self, value: Ref) -> TensorType:
        return self._types.get(value.name) or self.flow.program.type_of(value.name)

    def shape(self, value: Ref) -> tuple[int, ...]:
        return self.type_of(value).shape

    def is_alike(self, value: Ref, other: Ref) -> bool:
        """Both have one type: shape, dtype and layout."""
        return self.type_of(value) == self.type_of(other)

    def maker(self, value: Any) -> Call | None:
        """The operator call that makes an old value; None for inputs, numbers and externs."""
        index = self.flow.maker(value)
        call = None if index is None else self.flow.program.calls[index]
        return None if call is None or call.is_extern else call

    def lone_maker(self, value: Any, reader: int | None = None) -> int | None:
        """The index of the operator call that makes a value, if only `reader` reads its result.

        `reader` is the index of a call; None is this call. The result is None for inputs, for
        externs, and for values with other readers.
        """
        index = self.flow.maker(value)
        if index is None or self.maker(value) is None:
            return None
        reader = self.index if reader is None else reader
        return index if self.flow.is_only_read_by(index, reader) else None

    def emit_all(self, op: str, /, **values: Any) -> tuple[Ref, ...]:
        """Add a call, parameters by name.

        Raises:
            ValueError: the operator refuses these arguments.
        """
        args, types = typed_call(op, values, lambda name: self.type_of(Ref(name)))
        first = len(self._types)
        names = tuple(f"{_FRESH}{first + i}" for i in range(len(types)))
        self.added.append(Call(op, args, names, types))
        self._types.update(zip(names, types, strict=True))
        return tuple(map(Ref, names))

    def emit(self, op: str, /, **values: Any) -> Ref:
        """Add a call of one result."""
        (result,) = self.emit_all(op, **values)
        return result

    def reshaped(self, value: Ref, shape: tuple[int, ...]) -> Ref:
        """The value in this shape. The largest size is spelled -1, so that the program can be
        resized."""
        if self.shape(value) == shape:
            return value
        largest = shape.index(max(shape)) if shape else None
        spelled = tuple(-1 if i == largest else size for i, size in enumerate(shape))
        return self.emit("reshape", input=value, shape=spelled)


Rule = Callable[[Site], tuple[Ref, ...] | None]
"""The replacements of the call's results, one for each; None where the rule does not apply."""


def is_float(made: TensorType) -> bool:
    return "float" in made.dtype
