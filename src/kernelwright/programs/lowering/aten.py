"""ATen calls to operator calls: the translation behind `lowering`."""

import operator as builtin
from collections.abc import Mapping
from typing import Any, NoReturn

import torch
from torch.fx import Node

from kernelwright.core.errors import InfraError, KernelwrightError, UsageError
from kernelwright.ops.operator import REQUIRED, Operator, TensorType
from kernelwright.ops.registry import by_aten
from kernelwright.programs import extern
from kernelwright.programs.build import Builder, typed_call
from kernelwright.programs.capture.carriers import (
    carried,
    into_program,
    is_carried,
    out_of_program,
)
from kernelwright.programs.capture.failures import BRANCH_REMEDY, OUTSIDE_REMEDY, location
from kernelwright.programs.program import Ref
from kernelwright.programs.tensors import dtype_name, meta_tensor, plain, type_of

_NOTHING = frozenset({"aten._assert_async", "aten._assert_scalar", "aten._assert_tensor_metadata"})
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)
_SAME_VALUE = frozenset({"aten.alias", "aten.detach", "aten.lift_fresh_copy", "aten.lift_fresh"})
_COPIES = frozenset({"aten.clone", "aten._to_copy", "aten.to", "aten.contiguous"})
_CASTS = frozenset({"aten._to_copy", "aten.to"})
_DROPOUTS = frozenset({"aten.dropout", "aten.feature_dropout", "aten.alpha_dropout"})
_VIEWS = frozenset({"aten.view", "aten.reshape", "aten._unsafe_view", "aten.expand"})
_JOINS = frozenset({"aten.cat", "aten.concat", "aten.concatenate"})
_TO_THE_END = 2**63 - 1
"""How export writes the open end of a slice."""


def computing_nodes(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The calls of a graph that its results depend on.

    Left out are assertions, and numbers that only assertions read. `assert lengths.max().item() <=
    limit` takes a number out of a tensor, but no result depends on the number.
    """
    dropped: set[torch.fx.Node] = set()
    calls = [node for node in graph.nodes if node.op == "call_function"]
    # Backwards: all users of a node are then decided before the node.
    for node in reversed(calls):
        is_number = isinstance(node.meta.get("val"), _NUMBERS)
        if _is_assertion(node) or (is_number and dropped.issuperset(node.users)):
            dropped.add(node)
    return [node for node in calls if node not in dropped]


def _is_assertion(node: torch.fx.Node) -> bool:
    return str(node.target).rpartition(".")[0] in _NOTHING


class Translator:
    """Translates the nodes of an exported graph, in order, into the program of `builder`."""

    def __init__(self) -> None:
        self.builder = Builder()
        self._values: dict[Node, Any] = {}

    def declare(self, node: Node, name: str) -> str:
        """Makes a placeholder the program's next input.

        Args:
            name: of the input, for messages.

        Returns:
            The dtype of the module's tensor. The program's input may be a carrier of another dtype
            (`capture.carriers`).
        """
        value_type = self._type_of(node, node.meta["val"], name)
        if not is_carried(value_type.dtype):
            self._values[node] = self.builder.input(value_type)
            return value_type.dtype
        carrier = self.builder.input(type_of(carried(meta_tensor(value_type))))
        op, args = into_program(value_type.dtype)
        self._values[node] = self.builder.call(op, self=carrier, **args)[0]
        return value_type.dtype

    def output(self, value: Ref) -> tuple[Ref, str]:
        """(The value or its carrier, the value's own dtype), to be returned by the program."""
        dtype = self.builder.types[value.name].dtype
        for op, args in out_of_program(dtype) if is_carried(dtype) else ():
            value = self.builder.call(op, self=value, **args)[0]
        return value, dtype

    def value(self, item: Any) -> Any:
        """Plain values and `Ref`s in place of nodes, also inside lists."""
        if isinstance(item, Node):
            return self._values[item]
        if isinstance(item, list | tuple):
            return tuple(self.value(part) for part in item)
        return plain(item)

    def translate(self, node: Node) -> None:
        """Appends the calls that compute the node.

        Raises:
            UsageError: the node is no tensor operator, or its result has no type in a program.
            InfraError: a fault of kernelwright.
        """
        try:
            self._translate(node)
        except KernelwrightError:
            raise
        except Exception as error:
            file, line = location(node)
            raise InfraError(
                f"{file}:{line}: kernelwright failed to lower {node.target}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _translate(self, node: Node) -> None:
        if node.target is builtin.getitem:
            container, index = node.args
            self._values[node] = self.value(container)[index]
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            self._refuse(node, f"{node.target} is not a tensor operator")
        name = str(node.target)
        values = self._arguments(node)
        if name == "aten.broadcast_tensors.default":  # the losses call it, mostly for nothing
            self._values[node] = self._broadcast(values["tensors"], node.meta["val"][0].shape)
            return
        if name.rpartition(".")[0] in _JOINS and isinstance(values["tensors"], tuple):
            values["tensors"] = self._joined(node, values["tensors"])
        # A call that changes nothing would still cost a kernel, or split a fragment in two.
        if (same := self._unchanged(node, name, values)) is not None:
            self._values[node] = same
            return
        if (cast := self._laid_out(node, name, values)) is not None:
            self._values[node] = cast
            return
        value = self._by_record(node, name, values)
        self._values[node] = value if value is not None else self._as_extern(node, name, values)

    def _arguments(self, node: Node) -> dict[str, Any]:
        """The arguments of the node, by the names of the schema."""
        schema = extern.schema_args(str(node.target))
        bound = {arg.name: value for arg, value in zip(schema, node.args, strict=False)}
        try:
            return {name: self.value(value) for name, value in (bound | node.kwargs).items()}
        except ValueError as error:
            self._refuse(node, f"{node.target}: {error}")

    def _unchanged(self, node: Node, name: str, values: Mapping[str, Any]) -> Any:
        """The input, if the call returns the same values, dtype and layout; else None."""
        packet = name.rpartition(".")[0]
        if packet in _SAME_VALUE:
            return values["self"]
        if packet in _DROPOUTS and not values["train"]:
            return values["input"]
        if packet in _VIEWS:
            before, after = self.builder.types[values["self"].name], node.meta["val"]
            # `view.dtype` reads the same bits as another dtype.
            is_same = after.shape == before.shape and dtype_name(after.dtype) == before.dtype
            return values["self"] if is_same else None
        if packet in _JOINS and len(values["tensors"]) == 1:
            [only] = values["tensors"]
            is_same = self.builder.types[only.name] == self._type_of(node, node.meta["val"])
            return only if is_same else None
        if packet == "aten.copy":  # into a tensor whose own values count for nothing
            return self._copied(values["self"], values["src"])
        if packet not in _COPIES or not isinstance(values["self"], Ref):
            return None
        before = self.builder.types[values["self"].name]
        after = self._type_of(node, node.meta["val"])
        wanted = values.get("memory_format") or "preserve"
        same_layout = wanted == "preserve" or wanted == before.layout
        return values["self"] if same_layout and after.dtype == before.dtype else None

    def _laid_out(self, node: Node, name: str, values: Mapping[str, Any]) -> Ref | None:
        """The result of a cast into another memory format, which is two calls in a program; None
        for any other call."""
        if name.rpartition(".")[0] not in _CASTS or values.get("memory_format") is None:
            return None
        value: Ref = values["self"]
        before = self.builder.types[value.name]
        after = self._type_of(node, node.meta["val"])
        if after.layout is before.layout:
            return None
        if after.dtype != before.dtype:
            (value,) = self.builder.call("to_dtype", input=value, dtype=after.dtype)
        return self.builder.call("to_layout", input=value, memory_format=after.layout.value)[0]

    def _joined(self, node: Node, tensors: tuple[Ref, ...]) -> tuple[Ref, ...]:
        """The operands of a join without tensors of shape (0,), which PyTorch skips at any rank.

        A cache of transformers joins its first keys to such a tensor. If only an empty operand has
        the result's dtype, all operands stay.
        """
        kept = tuple(ref for ref in tensors if self._shape(ref) != (0,))
        dtype = dtype_name(node.meta["val"].dtype)
        has_dtype = any(self.builder.types[ref.name].dtype == dtype for ref in kept)
        return kept if has_dtype else tensors

    def _copied(self, into: Ref, source: Ref) -> Ref | None:
        """The source with the dtype and shape of the tensor that it overwrites.

        None if the layouts differ.
        """
        wanted, source_type = self.builder.types[into.name], self.builder.types[source.name]
        if wanted.layout is not source_type.layout:
            return None
        if wanted.dtype != source_type.dtype:
            (source,) = self.builder.call("to_dtype", input=source, dtype=wanted.dtype)
        return self._broadcast((source,), wanted.shape)[0]

    def _broadcast(self, tensors: tuple[Ref, ...], shape: tuple[int, ...]) -> tuple[Ref, ...]:
        return tuple(
            ref
            if self._shape(ref) == shape
            else self.builder.call("broadcast_to", input=ref, size=tuple(shape))[0]
            for ref in tensors
        )

    def _shape(self, ref: Ref) -> tuple[int, ...]:
        return self.builder.types[ref.name].shape

    def _by_record(
        self, node: Node, name: str, values: Mapping[str, Any]
    ) -> Ref | tuple[Any, ...] | None:
        """The results of the call by its operator record; None if no record applies."""
        operator = by_aten().get(name)
        if operator is None:
            return None
        result = node.meta["val"]
        try:
            parameters = _parameters(operator, name, values)
            if operator.family == "creation":  # the default may be another tensor's, or a setting
                parameters["dtype"] = dtype_name(result.dtype)
            args, types = typed_call(operator.name, parameters, self.builder.types.__getitem__)
        except ValueError:
            return None
        # The tracer's shapes and dtypes are the truth. A record that disagrees would make a wrong
        # program, so the call stays extern.
        if isinstance(result, torch.Tensor):
            if len(types) != 1 or not _agrees(types[0], result):
                return None
            return self.builder.append(operator.name, args, types)[0]
        # An ATen call may return more than its record, as means and deviations for a backward
        # pass. The record serves if the graph reads none of these.
        needed = [n.args[1] for n in node.users if n.target is builtin.getitem]
        if len(types) > len(result) or any(i not in range(len(types)) for i in needed):
            return None
        if not all(_agrees(computed, seen) for computed, seen in zip(types, result, strict=False)):
            return None
        return self.builder.append(operator.name, args, types)

    def _as_extern(self, node: Node, name: str, values: Mapping[str, Any]) -> Ref | tuple[Any, ...]:
        args = tuple(extern.bind(name, (), values).items())
        try:
            types = typed_call(name, dict(args), self.builder.types.__getitem__)[1]
        except ValueError:  # no implementation without memory: the tracer's own results
            result = node.meta["val"]
            results = result if isinstance(result, list | tuple) else (result,)
            types = tuple(self._type_of(node, item) for item in results if item is not None)
        names = self.builder.append(name, args, types)
        if not extern.returns_sequence(name):
            return names[0]
        # Some results of a backward call are None. Later nodes index the full sequence, so the
        # gaps must stay.
        left = iter(names)
        is_tensor = extern.computed(name, dict(args)) or (True,) * len(names)
        return tuple([next(left) if is_one else None for is_one in is_tensor])

    def _type_of(self, node: Node, result: Any, name: str = "") -> TensorType:
        if not isinstance(result, torch.Tensor):
            self._refuse(node, f"{node.target} takes a number out of a tensor", BRANCH_REMEDY)
        try:
            return type_of(result)
        except ValueError as error:
            self._refuse(node, f"{name or node.target}: {error}")

    def _refuse(self, node: Node, message: str, remedy: str = OUTSIDE_REMEDY) -> NoReturn:
        file, line = location(node)
        raise UsageError(message, file=file, line=line, remedy=remedy)


def _parameters(operator: Operator, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """ATen arguments as the operator's parameters.

    Raises:
        ValueError: an argument without a parameter is not at its default.
    """
    renames = operator.aten[name]
    known = {param.name for param in operator.params}
    converted: dict[str, Any] = {}
    for arg in extern.schema_args(name):
        ours = renames.get(arg.name, arg.name)
        if ours in known and arg.name in values:
            value = values[arg.name]
            converted[ours] = None if value == _TO_THE_END else value
        elif ours in known and operator.param(ours).default is REQUIRED and arg.has_default_value():
            converted[ours] = plain(arg.default_value)
        elif ours and ours not in known and arg.name not in extern.PLACEMENT:
            argument = values.get(arg.name)
            if arg.name in values and not (
                arg.has_default_value() and argument == plain(arg.default_value)
            ):
                raise ValueError(f"{operator.name} has no parameter for {arg.name}={argument!r}")
    return operator.canonical(name, converted) if operator.canonical else converted


def _agrees(made: TensorType, result: Any) -> bool:
    """Whether the type by the record's shape rule is the type that the tracer saw."""
    return made.shape == tuple(result.shape) and made.dtype == str(result.dtype)[6:]
