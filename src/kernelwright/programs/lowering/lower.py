"""Lowers an nn.Module to a program: torch.export, then a translation of each ATen call.

`torch.export` makes a functional graph, with parameters, buffers and constants as inputs. An ATen
call without an operator record, or with arguments that its record refuses, becomes an extern call.
Modules and inputs may live on the meta device: nothing is allocated.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind

from kernelwright.core.errors import UsageError, infra
from kernelwright.programs.build import canonical, dead_code
from kernelwright.programs.capture import structures
from kernelwright.programs.capture.carriers import carried, is_carried, restored
from kernelwright.programs.capture.failures import (
    changed_in_place,
    check_module,
    foreign_object,
)
from kernelwright.programs.capture.structures import Boundary
from kernelwright.programs.draws.initial import choose_inits
from kernelwright.programs.lowering import attributes
from kernelwright.programs.lowering.aten import Translator, computing_nodes
from kernelwright.programs.lowering.limits import numbers_written, with_limits
from kernelwright.programs.lowering.tracing import check_state, export
from kernelwright.programs.program import Program, Ref
from kernelwright.programs.shared_memory import contiguous_outputs, copied_outputs

_KINDS = {
    InputKind.USER_INPUT: "user",
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}


@dataclass(frozen=True, slots=True)
class InputSource:
    """Where a program input comes from."""

    kind: str
    """"user", "parameter", "buffer", "attribute" (a tensor that is none of these and that forward
    changes) or "constant"."""
    name: str
    """Qualified name in the module; for user inputs the path, e.g. "args[0]['mask']"."""
    position: int = -1
    """User inputs: which leaf of the flattened (args, kwargs)."""
    tensor: torch.Tensor | None = None
    """Constants: the value."""
    path: str = ""
    """Constants: an expression of `self` that reads the tensor; "" where the module does not hold
    the tensor itself."""
    dtype: str = "float32"
    """The dtype of the tensor itself. The program takes the tensor's carrier
    (`capture.carriers`)."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A module's computation as a program, and its connection to the module's state and results."""

    program: Program
    sources: tuple[InputSource, ...]
    """One for each program input."""
    mutations: tuple[tuple[int, str], ...]
    """(program output, name of the buffer or attribute it is the new value of)."""
    user_outputs: tuple[tuple[str, Any], ...]
    """Leaves of `out_spec`: ("output", program output), ("input", leaf of the inputs) or
    ("value", constant)."""
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    """A pair: the module's result, and a dict of the lists, dicts and objects among the inputs
    whose content the call changes, by their place in `structures.mutable_parts`."""
    changed_attributes: frozenset[str] = frozenset()
    """Names among `mutations` that are plain attributes."""
    input_mutations: tuple[tuple[int, int], ...] = ()
    """(program output, leaf of the inputs whose new value it is). Such leaves belong to objects."""
    carried_outputs: Mapping[int, str] = field(default_factory=dict)
    """Program outputs that are carriers -> the dtype of what they carry."""
    copied_outputs: frozenset[int] = frozenset()
    """Program outputs that `separated` copies."""
    contiguous_outputs: frozenset[int] = frozenset()
    """Program outputs that `separated` makes contiguous."""
    plain_inputs: tuple[tuple[str, Any], ...] = ()
    """(path, value) of numbers, flags and texts among the inputs: they are part of the program."""
    part_paths: tuple[str, ...] = ()
    """Paths of `structures.mutable_parts`: "args[0]"."""
    leaf_paths: Mapping[int, str] = field(default_factory=dict)
    """Leaves of the inputs that the call changes in place -> their paths."""

    @property
    def changed_parts(self) -> tuple[int, ...]:
        """Keys of the dict in `out_spec`."""
        return tuple(self.out_spec.children()[1].context)

    @property
    def needs_inputs(self) -> bool:
        """Whether `rebuild` needs the call's inputs, because one is changed or returned."""
        has_changes = bool(self.changed_parts or self.input_mutations)
        return has_changes or structures.has_alias(self.out_spec)

    def separated(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The program's outputs, copied where the module's results have memory of their own, and
        contiguous where the module's results are.

        Call this before `store` and `rebuild`, which change memory that outputs may share."""
        return [self._own(position, value) for position, value in enumerate(outputs)]

    def _own(self, position: int, value: torch.Tensor) -> torch.Tensor:
        """An output with the memory that the module's result has."""
        is_contiguous = position in self.contiguous_outputs
        if position in self.copied_outputs:
            wanted = torch.contiguous_format if is_contiguous else torch.preserve_format
            return value.clone(memory_format=wanted)
        return value.contiguous() if is_contiguous else value

    def on(self, device: torch.device) -> Self:
        """The same with its constants on a device. Tensors that forward makes from numbers are on
        the CPU, where kernels cannot read them."""
        sources = [
            s if s.tensor is None else replace(s, tensor=s.tensor.to(device)) for s in self.sources
        ]
        return replace(self, sources=tuple(sources))

    def store(self, module: torch.nn.Module, outputs: Sequence[torch.Tensor]) -> None:
        """Writes new values of buffers and attributes into the module, as its own call would do."""
        for position, name in self.mutations:
            value = self._restored(outputs, position)
            if name in self.changed_attributes:
                attributes.write(module, name, value)
            else:
                module.get_buffer(name).copy_(value)

    def _restored(self, outputs: Sequence[Any], position: int) -> Any:
        """An output of the program in its own dtype."""
        dtype = self.carried_outputs.get(position)
        return restored(outputs[position], dtype) if dtype else outputs[position]

    def rebuild(
        self,
        outputs: Sequence[Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The module's result in its own structure, from the outputs of the program.

        Args:
            args: the call's inputs. Objects among them are changed as the module would change
                them, as a cache that grows.
            kwargs: inputs by name.
        """
        kwargs = dict(kwargs or {})
        flat = pytree.tree_leaves((args, kwargs)) if self.needs_inputs else []
        for output, position in self.input_mutations:
            flat[position].copy_(self._restored(outputs, output))
        leaf_of: dict[str, Callable[[Any], Any]] = {
            "output": lambda i: self._restored(outputs, i),
            "input": lambda i: flat[i],
            "value": lambda value: value,
        }
        leaves = [leaf_of[kind](value) for kind, value in self.user_outputs]
        result, changed = pytree.tree_unflatten(leaves, self.out_spec)
        if not self.needs_inputs:
            return result
        parts = list(structures.mutable_parts(args, kwargs).values())
        for i, new in changed.items():
            structures.become(parts[i], new)
        return structures.resolved(result, parts)

    def gather(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[torch.Tensor]:
        """The program's inputs, in order, for a call of `module` with these arguments.

        Raises:
            UsageError: the arguments are not structured as the example inputs were.
        """
        leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
        if spec != self.in_spec:
            raise UsageError(
                f"inputs are structured as {spec}, the module was lowered with {self.in_spec}",
                remedy="call it with the structure of the example inputs",
            )
        return self.inputs_of(module, leaves)

    def inputs_of(self, module: torch.nn.Module, leaves: Sequence[Any]) -> list[torch.Tensor]:
        """The program's inputs, in order.

        Args:
            leaves: the flattened (args, kwargs) of a call.
        """
        tensors = []
        for source in self.sources:
            if source.kind == "user":
                tensors.append(leaves[source.position])
            elif source.tensor is not None:
                tensors.append(source.tensor)
            elif source.kind == "parameter":
                tensors.append(module.get_parameter(source.name))
            elif source.kind == "attribute":
                tensors.append(attributes.read(module, source.name))
            else:
                tensors.append(module.get_buffer(source.name))
        return list(map(carried, tensors))


def lower(
    module: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    example_kwargs: Mapping[str, Any] | None = None,
) -> Lowered:
    """The program that `module(*example_inputs, **example_kwargs)` runs, at these shapes.

    Unused inputs are left out. The module's current mode (training or eval) decides what is run.

    Raises:
        UsageError: the module cannot be captured; the error names the user's file and line.
    """
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"{type(module).__name__} is not a torch.nn.Module",
            remedy="wrap the function in a module whose forward calls it",
        )
    check_module(module)
    args, kwargs = tuple(example_inputs), dict(example_kwargs or {})
    _check_inputs(args, kwargs)
    args, kwargs = _distinct((args, kwargs))
    with structures.kept(module), attributes.as_buffers(module) as plain:
        boundary = Boundary(module)
        exported = export(boundary, args, kwargs)
    check_state(boundary, args, kwargs)
    with infra(f"a fault of kernelwright, please report it: lowering {type(module).__name__}"):
        return _program_of(module, exported, (args, kwargs), plain)


def _program_of(
    module: torch.nn.Module,
    exported: ExportedProgram,
    example: tuple[tuple[Any, ...], dict[str, Any]],
    plain: Mapping[str, torch.Tensor],
) -> Lowered:
    """The program of a captured module.

    Args:
        plain: tensors in plain attributes of the module, by name.
    """
    args, kwargs = example
    leaves, in_spec = pytree.tree_flatten(example)
    translator = Translator()
    sources = _declare_inputs(translator, exported, (args, kwargs))
    for node in computing_nodes(exported.graph):
        translator.translate(node)
    results = _Results.read(translator, exported, _inside_parts(args, kwargs), module)
    number_of = numbers_written(exported)
    bound = zip(translator.builder.inputs, sources, strict=True)
    numbers = {value.name: number_of[s.name] for value, s in bound if s.name in number_of}
    changed = frozenset(name for _, name in results.mutations if name in plain)
    paths = [_path_text(path) for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]]
    own_tensors = attributes.held(module)
    sources = [_with_path(_of_plain(s, plain, changed), own_tensors) for s in sources]
    program = translator.builder.program(results.outputs)
    # A clamp holds its limit as a number: the input of the number may now be unused.
    program = dead_code(with_limits(program, numbers))
    used = {name for call in program.calls for name in call.refs()} | set(program.outputs)
    kept = [i for i, value in enumerate(program.inputs) if value.name in used]
    sources = [sources[i] for i in kept]
    program = replace(program, inputs=tuple(program.inputs[i] for i in kept))
    names = [s.name if s.kind in ("parameter", "buffer") else "" for s in sources]
    examples = [leaves[s.position] if s.kind == "user" else s.tensor for s in sources]
    examples = [None if example is None else carried(example) for example in examples]
    return Lowered(
        program=canonical(choose_inits(program, names, examples)),
        sources=tuple(sources),
        mutations=tuple(results.mutations),
        user_outputs=tuple(results.user_outputs),
        in_spec=in_spec,
        out_spec=exported.call_spec.out_spec,
        changed_attributes=changed,
        input_mutations=tuple(results.input_mutations),
        carried_outputs=results.carried,
        copied_outputs=copied_outputs(program, results.nodes, results.written(changed)),
        contiguous_outputs=contiguous_outputs(program, results.nodes),
        plain_inputs=tuple(structures.plain_values((args, kwargs), _path_text)),
        part_paths=tuple(structures.mutable_parts(args, kwargs)),
        leaf_paths={i: paths[i] for _, i in results.input_mutations},
    )


def _check_inputs(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Registers the classes of objects among the inputs as nodes of PyTorch's trees.

    Raises:
        UsageError: a class cannot be registered, as that of an iterator or a module.
    """
    for path, value in [*enumerate(args), *kwargs.items()]:
        try:
            structures.register(value)
        except TypeError as error:
            place = f"positional input {path}" if isinstance(path, int) else f"input {path!r}"
            raise UsageError(
                f"{place} of forward is or holds {error}, an unsupported input type",
                remedy="pass tensors, numbers, flags, and lists, tuples, dicts or objects of them",
            ) from error


def _inside_parts(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> frozenset[int]:
    """Leaves of the inputs that belong to lists, dicts and objects."""
    paths = structures.mutable_parts(args, kwargs)
    leaves = pytree.tree_flatten_with_path((args, kwargs))[0]
    names = [_path_text(path) for path, _ in leaves]
    return frozenset(i for i, name in enumerate(names) if name.startswith(tuple(paths)))


def _path_text(path: tuple[Any, ...]) -> str:
    """A leaf of (args, kwargs) as an expression: "args[0]['mask']"."""
    text = pytree.keystr(path)
    return ("args" if text.startswith("[0]") else "kwargs") + text[3:]


def _own_name(target: object) -> str:
    """The name that a parameter or buffer has in the user's module, inside a `Boundary`."""
    return str(target).removeprefix("inner.")


def _of_plain(
    source: InputSource, plain: Mapping[str, torch.Tensor], changed: Collection[str]
) -> InputSource:
    """The source of a plain attribute, which the capture saw as a buffer.

    The kind is "attribute" if forward changes the tensor, else "constant"."""
    if source.kind != "buffer" or source.name not in plain:
        return source
    if source.name in changed:
        return replace(source, kind="attribute")
    return replace(source, kind="constant", tensor=plain[source.name])


def _with_path(source: InputSource, held: Mapping[int, str]) -> InputSource:
    """A constant that a list or dict of the module holds, with the expression that reads it."""
    path = held.get(id(source.tensor), "")
    return replace(source, path=path) if path else source


def _distinct(example: tuple[Any, ...]) -> tuple[Any, ...]:
    """The example with a different tensor object at each leaf. The tracer would see one input where
    the same object is given twice."""
    leaves, spec = pytree.tree_flatten(example)
    seen: set[int] = set()
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            leaves[i] = leaf.detach() if id(leaf) in seen else leaf
            seen.add(id(leaf))
    apart: tuple[Any, ...] = pytree.tree_unflatten(leaves, spec)
    return apart


def _declare_inputs(
    translator: Translator, exported: ExportedProgram, example: tuple[Any, ...]
) -> list[InputSource]:
    """Make every placeholder that holds a tensor an input of the program."""
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    paths = [_path_text(path) for path, _ in pytree.tree_flatten_with_path(example)[0]]
    sources: list[InputSource] = []
    position = -1
    for spec in exported.graph_signature.input_specs:
        position += spec.kind is InputKind.USER_INPUT
        if isinstance(spec.arg, ConstantArgument):
            continue  # a number, flag or None: part of the program
        node = nodes[spec.arg.name]
        is_user = spec.kind is InputKind.USER_INPUT
        if spec.kind not in _KINDS:
            raise foreign_object(getattr(spec.arg, "class_fqn", spec.kind.name.lower()), node)
        name = paths[position] if is_user else _own_name(spec.target)
        dtype = translator.declare(node, name)
        if is_user:
            sources.append(InputSource("user", name, position, dtype=dtype))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            constant = exported.constants[spec.target]
            sources.append(InputSource("constant", str(spec.target), tensor=constant, dtype=dtype))
        else:
            sources.append(InputSource(_KINDS[spec.kind], name, dtype=dtype))
    return sources


@dataclass(slots=True)
class _Results:
    """The results of the exported graph: the module's outputs first, then new buffer values."""

    outputs: list[Ref] = field(default_factory=list)
    user_outputs: list[tuple[str, Any]] = field(default_factory=list)
    mutations: list[tuple[int, str]] = field(default_factory=list)
    input_mutations: list[tuple[int, int]] = field(default_factory=list)
    carried: dict[int, str] = field(default_factory=dict)
    nodes: list[torch.fx.Node] = field(default_factory=list)
    """The node of each output."""

    def written(self, changed_attributes: Collection[str]) -> set[int]:
        """Outputs that are copied into buffers and inputs."""
        buffers = {i for i, name in self.mutations if name not in changed_attributes}
        return buffers | {i for i, _ in self.input_mutations}

    def append(self, translator: Translator, value: Ref, node: torch.fx.Node) -> int:
        """Make a value the program's next output; its place."""
        self.nodes.append(node)
        output, dtype = translator.output(value)
        if is_carried(dtype):
            self.carried[len(self.outputs)] = dtype
        self.outputs.append(output)
        return len(self.outputs) - 1

    @classmethod
    def read(
        cls,
        translator: Translator,
        exported: ExportedProgram,
        inside_parts: Collection[int],
        module: torch.nn.Module,
    ) -> Self:
        """Reads the results of the exported graph.

        Args:
            inside_parts: leaves of the inputs that may be changed in place.
            module: its forward names the inputs.

        Raises:
            UsageError: forward changes any other input in place.
        """
        results = cls()
        positions = {
            getattr(spec.arg, "name", None): i for i, spec in enumerate(_user_inputs(exported))
        }
        changed: dict[str, tuple[int, torch.fx.Node]] = {}
        updates: list[tuple[str, Ref, torch.fx.Node]] = []
        returned = exported.graph.output_node().args[0]
        # Export lists mutations before user outputs. So `changed` is complete when they are read.
        for spec, node in zip(exported.graph_signature.output_specs, returned, strict=True):
            value = translator.value(node)
            position = positions.get(spec.target)
            if spec.kind is OutputKind.BUFFER_MUTATION:
                updates.append((_own_name(spec.target), value, node))
            elif (
                spec.kind is OutputKind.USER_INPUT_MUTATION
                and position is not None
                and position in inside_parts
            ):
                changed[value.name] = position, node
            elif spec.kind is not OutputKind.USER_OUTPUT:
                raise changed_in_place(module, str(spec.target), node)
            elif isinstance(value, Ref) and value.name in changed:
                results.user_outputs.append(("input", changed[value.name][0]))
            elif isinstance(value, Ref):
                results.user_outputs.append(("output", results.append(translator, value, node)))
            else:
                results.user_outputs.append(("value", value))
        for name, value, node in updates:
            results.mutations.append((results.append(translator, value, node), name))
        for name, (position, node) in changed.items():
            results.input_mutations.append((results.append(translator, Ref(name), node), position))
        return results


def _user_inputs(exported: ExportedProgram) -> list[InputSpec]:
    """The leaves of the inputs, as the signature describes them."""
    specs = exported.graph_signature.input_specs
    return [spec for spec in specs if spec.kind is InputKind.USER_INPUT]
