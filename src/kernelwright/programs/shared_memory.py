"""Outputs that share memory with an input or with each other, and outputs that are strided.

A program has no calls that only copy, so its outputs may be views where those of the captured graph
are not."""

from collections.abc import Collection, Sequence

import torch
from torch.fx import Node

from kernelwright.programs import extern
from kernelwright.programs.fragments.fragment import RELABELLING
from kernelwright.programs.program import Call, Program
from kernelwright.programs.reference import evaluate_call
from kernelwright.programs.tensors import meta_tensor

VIEWS = RELABELLING | {"to_layout"}
"""Operators whose results may show the memory of their first operand."""


def copied_outputs(
    program: Program, nodes: Sequence[Node], written: Collection[int]
) -> frozenset[int]:
    """Positions of outputs that must be copied before any state changes.

    There are two kinds. An output may share memory in the program, but not in the captured graph.
    Or an output may show an input and be written into a buffer: the input may be overwritten first.

    Args:
        nodes: the node of the graph that each output stands for.
        written: positions of outputs whose values are written into buffers or inputs.
    """
    inputs = {value.name for value in program.inputs}
    owners = set(inputs)
    bases: set[Node] = set()
    copied = set()
    for position, (name, node) in enumerate(zip(program.outputs, nodes, strict=True)):
        owner, base = _owner(program, name), _base(node)
        is_shared_there = base.op == "placeholder" or base in bases
        is_at_risk = position in written and owner in inputs
        if is_at_risk or (owner in owners and not is_shared_there):
            copied.add(position)
        owners.add(owner)
        bases.add(base)
    return frozenset(copied)


def contiguous_outputs(program: Program, nodes: Sequence[Node]) -> frozenset[int]:
    """Positions of outputs that are contiguous in the captured graph and strided in the program.

    An example is `y.transpose(1, 2).contiguous()`: the program has only the view. Outputs that show
    an input in the graph too are left out, because they must stay views. Outputs that show an input
    in the program alone are included, because a caller may pass strided inputs.

    Args:
        nodes: the node of the graph that each output stands for.
    """
    inputs = {value.name for value in program.inputs}
    return frozenset(
        position
        for position, (name, node) in enumerate(zip(program.outputs, nodes, strict=True))
        if _base(node).op != "placeholder"
        and node.meta["val"].is_contiguous()
        and (_owner(program, name) in inputs or not _shown(program, name).is_contiguous())
    )


def _shown(program: Program, name: str) -> torch.Tensor:
    """A value on the meta device, with the strides that PyTorch gives a chain of views."""
    number = program.producer().get(name)
    if number is None or not _may_be_view(program.calls[number]):
        return meta_tensor(program.type_of(name))
    call = program.calls[number]
    results = evaluate_call(call, {shown: _shown(program, shown) for shown in call.refs()})
    return results[call.outputs.index(name)]


def _owner(program: Program, name: str) -> str:
    """The value whose memory a value shows, through calls that may return views."""
    while (number := program.producer().get(name)) is not None:
        call = program.calls[number]
        if not _may_be_view(call):
            return name
        name = next(call.refs())
    return name


def _may_be_view(call: Call) -> bool:
    if not call.is_extern:
        return call.op in VIEWS
    return any(argument.alias_info is not None for argument in extern.schema_args(call.op))


def _base(node: Node) -> Node:
    """The node whose memory a chain of views shows."""
    while (viewed := _viewed(node)) is not None:
        node = viewed
    return node


def _viewed(node: Node) -> Node | None:
    """The node that this one is a view of, or None."""
    if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        arguments = zip(node.target._schema.arguments, node.args, strict=False)
        views = [value for argument, value in arguments if argument.alias_info is not None]
    else:
        views = list(node.args[:1])  # an item of a sequence of views
    return next((value for value in views if isinstance(value, Node)), None)
