"""From an nn.Module to a program: torch.export, then ATen calls to operators.

`torch.export` lifts parameters, buffers and constants to inputs and functionalizes; what it gives
is translated call by call. An ATen call without a record, or one that its record refuses, stays as
an extern call. Modules and inputs may live on the meta device: nothing is allocated.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, Self

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from kernelwright.core.errors import UsageError
from kernelwright.programs import attributes
from kernelwright.programs.aten import Translator
from kernelwright.programs.build import canonical, dead_code, typed_call
from kernelwright.programs.initial import choose_inits
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.programs.tracing import export

_KINDS = {
    InputKind.USER_INPUT: "user",
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}


_LIMITS = {"minimum": "max", "maximum": "min"}
"""What a number among the operands is to a clamp."""


@dataclass(frozen=True, slots=True)
class Source:
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


@dataclass(frozen=True, slots=True)
class Lowered:
    """A module's computation as a program, and what ties it back to the module."""

    program: Program
    sources: tuple[Source, ...]
    """One for each program input."""
    mutations: tuple[tuple[int, str], ...]
    """(program output, name of the buffer or attribute it is the new value of)."""
    user_outputs: tuple[tuple[str, Any], ...]
    """Leaves of the module's result: ("output", program output) or ("value", constant)."""
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    changed_attributes: frozenset[str] = frozenset()
    """Names among `mutations` that are plain attributes."""

    def store(self, module: torch.nn.Module, outputs: Sequence[torch.Tensor]) -> None:
        """Change the module's state as the call that gave these outputs does."""
        for position, name in self.mutations:
            if name in self.changed_attributes:
                attributes.write(module, name, outputs[position])
            else:
                module.get_buffer(name).copy_(outputs[position])

    def rebuild(self, outputs: Sequence[Any]) -> Any:
        """The module's own return structure, from the program's outputs."""
        leaves = [outputs[v] if kind == "output" else v for kind, v in self.user_outputs]
        return pytree.tree_unflatten(leaves, self.out_spec)

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
        return tensors


def lower(
    module: torch.nn.Module,
    example_inputs: tuple[Any, ...],
    example_kwargs: Mapping[str, Any] | None = None,
) -> Lowered:
    """The program that `module(*example_inputs, **example_kwargs)` runs, at these shapes.

    Unused inputs are left out; training or eval mode is as the module has it.

    Raises:
        UsageError: the module cannot be captured; names the user's file and line.
    """
    if not isinstance(module, torch.nn.Module):
        raise UsageError(
            f"{type(module).__name__} is not a torch.nn.Module",
            remedy="wrap the function in a module whose forward calls it",
        )
    args, kwargs = _distinct((tuple(example_inputs), dict(example_kwargs or {})))
    with attributes.as_buffers(module) as plain:
        exported = export(module, args, kwargs)
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    translator = Translator()
    sources = _declare_inputs(translator, exported, (args, kwargs))
    for node in exported.graph.nodes:
        if node.op == "call_function":
            translator.translate(node)
    results = _Results.read(translator, exported)
    made = _numbers_made(exported)
    given = zip(translator.builder.inputs, sources, strict=True)
    numbers = {value.name: made[s.name] for value, s in given if s.name in made}
    changed = frozenset(name for _, name in results.mutations if name in plain)
    sources = [_of_plain(s, plain, changed) for s in sources]
    program = translator.builder.program(results.outputs)
    program = dead_code(_with_limits(program, numbers))
    used = {name for call in program.calls for name in call.refs()} | set(program.outputs)
    kept = [i for i, value in enumerate(program.inputs) if value.name in used]
    sources = [sources[i] for i in kept]
    program = replace(program, inputs=tuple(program.inputs[i] for i in kept))
    names = [s.name if s.kind in ("parameter", "buffer") else "" for s in sources]
    examples = [leaves[s.position] if s.kind == "user" else s.tensor for s in sources]
    return Lowered(
        program=canonical(choose_inits(program, names, examples)),
        sources=tuple(sources),
        mutations=tuple(results.mutations),
        user_outputs=tuple(results.user_outputs),
        in_spec=in_spec,
        out_spec=exported.call_spec.out_spec,
        changed_attributes=changed,
    )


def _numbers_made(exported: ExportedProgram) -> dict[str, float]:
    """Constants that are floats which `forward` makes tensors of, as in `torch.tensor(0.5)`, by
    name. A tensor that lives elsewhere, a global say, is a constant to `torch.export` as well, but
    may change."""
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    found = {}
    for spec in exported.graph_signature.input_specs:
        value = exported.constants.get(str(spec.target))
        if spec.kind is not InputKind.CONSTANT_TENSOR or not isinstance(value, torch.Tensor):
            continue
        is_number = value.dim() == 0 and value.is_floating_point() and not value.is_meta
        if is_number and all(map(_is_fresh, nodes[spec.arg.name].users)):
            found[str(spec.target)] = float(value)
    return {name: number for name, number in found.items() if not isnan(number)}


def _is_fresh(node: torch.fx.Node) -> bool:
    """The node copies what `forward` wrote down, which nothing else holds."""
    origins = node.meta.get("from_node", ())
    return any(str(origin.name).startswith("lift_fresh") for origin in origins)


def _with_limits(program: Program, numbers: Mapping[str, float]) -> Program:
    """Minima and maxima with a tensor that holds one number as clamps, which have it as a limit."""

    def limited(call: Call) -> Call:
        if call.op not in _LIMITS:
            return call
        one, other = call.arg("input"), call.arg("other")
        for value, limit in ((one, other), (other, one)):
            if limit.name in numbers:
                given = {"input": value, _LIMITS[call.op]: numbers[limit.name]}
                args, types = typed_call("clamp", given, program.type_of)
                return replace(call, op="clamp", args=args) if types == call.types else call
        return call

    return replace(program, calls=tuple(map(limited, program.calls)))


def _of_plain(
    source: Source, plain: Mapping[str, torch.Tensor], changed: Collection[str]
) -> Source:
    """A buffer that is a plain attribute as what it is: one that changes, or a constant."""
    if source.kind != "buffer" or source.name not in plain:
        return source
    if source.name in changed:
        return replace(source, kind="attribute")
    return replace(source, kind="constant", tensor=plain[source.name])


def _distinct(example: tuple[Any, ...]) -> tuple[Any, ...]:
    """The example with a tensor object of its own at each leaf: the tracer takes one object given
    twice for one input."""
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
) -> list[Source]:
    """Make every placeholder that holds a tensor an input of the program."""
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(example)[0]]
    sources: list[Source] = []
    position = -1
    for spec in exported.graph_signature.input_specs:
        position += spec.kind is InputKind.USER_INPUT
        if isinstance(spec.arg, ConstantArgument):
            continue  # a number, flag or None: part of the program
        if spec.kind not in _KINDS:
            raise UsageError(
                f"input {spec.arg.name} is a {spec.kind.name.lower()}",
                remedy="pass tensors, numbers, flags, and containers of them",
            )
        translator.declare(nodes[spec.arg.name])
        if spec.kind is InputKind.USER_INPUT:
            path = paths[position]
            group = "args" if path.startswith("[0]") else "kwargs"
            sources.append(Source("user", group + path[3:], position))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            constant = exported.constants[spec.target]
            sources.append(Source("constant", str(spec.target), tensor=constant))
        else:
            sources.append(Source(_KINDS[spec.kind], str(spec.target)))
    return sources


@dataclass(slots=True)
class _Results:
    """What the exported graph returns: the module's outputs first, then new buffer values."""

    outputs: list[Ref] = field(default_factory=list)
    user_outputs: list[tuple[str, Any]] = field(default_factory=list)
    mutations: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def read(cls, translator: Translator, exported: ExportedProgram) -> Self:
        found = cls()
        updates: list[tuple[str, Ref]] = []
        returned = exported.graph.output_node().args[0]
        for spec, node in zip(exported.graph_signature.output_specs, returned, strict=True):
            value = translator.value(node)
            if spec.kind is OutputKind.BUFFER_MUTATION:
                updates.append((str(spec.target), value))
            elif spec.kind is not OutputKind.USER_OUTPUT:
                raise UsageError(
                    f"forward changes {spec.target!r} in place ({spec.kind.name.lower()})",
                    remedy="return a new tensor instead, or clone the input first",
                )
            elif isinstance(value, Ref):
                found.user_outputs.append(("output", len(found.outputs)))
                found.outputs.append(value)
            else:
                found.user_outputs.append(("value", value))
        for name, value in updates:
            found.mutations.append((len(found.outputs), name))
            found.outputs.append(value)
        return found
