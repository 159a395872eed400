"""Builds programs: computes the types of calls, gives canonical names, and drops dead calls."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import takewhile
from typing import Any

from kernelwright.ops.operator import DTYPE_BYTES, REQUIRED, Operator, ParameterKind, TensorType
from kernelwright.ops.registry import operators
from kernelwright.programs import extern
from kernelwright.programs.program import Call, Init, Input, Program, Ref
from kernelwright.programs.tensors import meta_tensor


def map_refs(value: Any, replace: Callable[[Ref], Any]) -> Any:
    """`value` with `replace(ref)` in place of every `Ref`, also inside tuples."""
    if isinstance(value, Ref):
        return replace(value)
    if isinstance(value, tuple):
        return tuple([map_refs(item, replace) for item in value])
    return value


class Builder:
    """A program under construction. Values get their canonical names as they are made."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.calls: list[Call] = []
        self.types: dict[str, TensorType] = {}
        self._num_results = 0

    def input(self, made: TensorType, init: Init | None = None) -> Ref:
        """Declare the next input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(Input(name, made, init or default_init(made)))
        self.types[name] = made
        return Ref(name)

    def call(self, op: str, /, **values: Any) -> tuple[Ref, ...]:
        """Append a call of an operator or an extern; parameters by name, tensors as `Ref`s.

        Raises:
            ValueError: the operator refuses these arguments.
        """
        return self.append(op, *typed_call(op, values, self.types.__getitem__))

    def append(
        self, op: str, args: tuple[tuple[str, Any], ...], types: tuple[TensorType, ...]
    ) -> tuple[Ref, ...]:
        """Append a call whose types are known."""
        first = self._num_results
        self._num_results += len(types)
        names = tuple(f"t{i}" for i in range(first, self._num_results))
        self.calls.append(Call(op, args, names, types))
        self.types.update(zip(names, types, strict=True))
        return tuple(map(Ref, names))

    def program(self, outputs: tuple[Ref, ...] | list[Ref]) -> Program:
        return Program(tuple(self.inputs), tuple(self.calls), tuple(ref.name for ref in outputs))


def default_init(made: TensorType) -> Init:
    """A draw that suits the dtype alone: normal, or 0 and 1 for integers and bool."""
    is_float = made.dtype.startswith(("float", "bfloat", "complex"))
    return Init("randn") if is_float else Init("randint", 0, 2)


def typed_call(
    op: str, values: Mapping[str, Any], type_of: Callable[[str], TensorType]
) -> tuple[tuple[tuple[str, Any], ...], tuple[TensorType, ...]]:
    """(args as a `Call` holds them, result types) of a call with these parameters.

    Args:
        op: the name of an operator or of an ATen overload.
        values: parameter -> value, with `Ref`s for tensors.
        type_of: the type of a `Ref`'s name.

    Raises:
        ValueError: the operator is unknown, a parameter is missing or unknown, or the operator's
            rules refuse the arguments.
    """
    if op not in operators():
        args = extern.bind(op, (), values)
        tensors = map_refs(tuple(args.items()), lambda ref: meta_tensor(type_of(ref.name)))
        return tuple(args.items()), extern.result_types(op, dict(tensors))
    operator = operators()[op]
    checked = bind(operator, values)
    operands: list[TensorType] = []

    def typed(ref: Ref) -> TensorType:
        operands.append(type_of(ref.name))
        return operands[-1]

    bound = {name: map_refs(value, typed) for name, value in checked}
    defaults = {p.name: p.default for p in operator.params}
    types = operator.types(defaults | bound)
    if foreign := {result_type.dtype for result_type in (*operands, *types)} - DTYPE_BYTES.keys():
        raise ValueError(f"{operator.call} does not compute with {sorted(foreign)[0]}")
    return checked, types


def bind(operator: Operator, values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """(parameter, value) in the operator's order, without parameters at their default.

    Raises:
        ValueError: a parameter is missing, unknown, or not of its kind.
    """
    if unknown := values.keys() - {p.name for p in operator.params}:
        raise ValueError(f"{operator.call} has no parameter {sorted(unknown)[0]!r}")
    if operator.canonical is not None:
        values = operator.canonical("", values)
    args = []
    for param in operator.params:
        value = values.get(param.name, param.default)
        if value is REQUIRED:
            raise ValueError(f"{operator.call} needs {param.name!r}")
        if not is_default(value, param.default):
            if not fits(param.kind, value):
                raise ValueError(f"{operator.call}: {param.name!r} cannot be {value!r}")
            args.append((param.name, value))
    return tuple(args)


def spelled_args(call: Call) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """(arguments by position, arguments by keyword) of a call in source text.

    Leading tensors go by position, because PyTorch's callables differ in their names for them.
    Externs take all arguments by position that their schema allows.
    """
    order = _order(call.op)
    by_name = dict(call.args)
    lead = [name for name, _ in takewhile(lambda item: item[1] and item[0] in by_name, order)]
    rest = [name for name, _ in order[len(lead) :] if name in by_name]
    return [(name, by_name[name]) for name in lead], [(name, by_name[name]) for name in rest]


@cache
def _order(op: str) -> tuple[tuple[str, bool], ...]:
    """Parameters in call order -> whether they may go by position."""
    if op not in operators():
        return tuple((arg.name, not arg.kwarg_only) for arg in extern.schema_args(op))
    return tuple((p.name, p.kind is not ParameterKind.ATTRIBUTE) for p in operators()[op].params)


def returns_sequence(call: Call) -> bool:
    """Whether PyTorch returns a tuple or list for the call, be it of one tensor."""
    return extern.returns_sequence(call.op) if call.is_extern else call.operator.num_outputs != 1


def is_default(value: Any, default: Any) -> bool:
    """Whether a value is the default: 1 equals 1.0, but True does not equal 1."""
    return isinstance(value, bool) == isinstance(default, bool) and bool(value == default)


def fits(kind: ParameterKind, value: Any) -> bool:
    """Whether a parameter of this kind can hold the value."""
    if kind is ParameterKind.TENSORS:
        return isinstance(value, tuple) and bool(value) and all(isinstance(v, Ref) for v in value)
    if kind is ParameterKind.OPTIONAL_TENSORS:
        return (
            isinstance(value, tuple)
            and _has_ref(value)
            and all(v is None or isinstance(v, Ref) for v in value)
        )
    if kind is ParameterKind.TENSOR_OR_SCALAR:
        return isinstance(value, Ref | int | float)
    if kind is ParameterKind.ATTRIBUTE:
        return not _has_ref(value)
    return isinstance(value, Ref) or (kind is ParameterKind.OPTIONAL_TENSOR and value is None)


def _has_ref(value: Any) -> bool:
    return isinstance(value, Ref) or (isinstance(value, tuple) and any(map(_has_ref, value)))


def canonical(program: Program) -> Program:
    """The same program with inputs x0, x1, ... and results t0, t1, ... in order."""
    names = {value.name: f"x{i}" for i, value in enumerate(program.inputs)}
    results = [name for call in program.calls for name in call.outputs]
    names |= {name: f"t{i}" for i, name in enumerate(results)}
    if all(old == new for old, new in names.items()):
        return program
    return rename(program, names)


def in_reading_order(program: Program) -> Program:
    """The same program with its inputs in the order in which its calls read them; inputs that no
    call reads come last. Names are canonical."""
    reads = dict.fromkeys(name for call in program.calls for name in call.refs())
    place = {name: number for number, name in enumerate(reads)}
    inputs = sorted(program.inputs, key=lambda value: place.get(value.name, len(place)))
    return canonical(Program(tuple(inputs), program.calls, program.outputs))


def rename(program: Program, names: Mapping[str, str]) -> Program:
    """The same program with values called `names[old]`."""

    def renamed(ref: Ref) -> Ref:
        return Ref(names[ref.name])

    return Program(
        tuple(Input(names[v.name], v.type, v.init) for v in program.inputs),
        tuple(
            Call(
                call.op,
                tuple((parameter, map_refs(value, renamed)) for parameter, value in call.args),
                tuple(names[name] for name in call.outputs),
                call.types,
            )
            for call in program.calls
        ),
        tuple(names[name] for name in program.outputs),
    )


def dead_code(program: Program) -> Program:
    """The program without calls whose results nothing uses; inputs stay. Names are canonical."""
    live, kept = set(program.outputs), []
    for call in reversed(program.calls):
        if live.intersection(call.outputs):
            kept.append(call)
            live.update(call.refs())
    return canonical(Program(program.inputs, tuple(reversed(kept)), program.outputs))
