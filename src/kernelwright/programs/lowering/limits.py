"""Numbers that `forward` writes as tensors, and their use as limits of clamps."""

from collections.abc import Mapping
from dataclasses import replace
from math import isnan

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from kernelwright.programs.build import typed_call
from kernelwright.programs.program import Call, Program

_LIMITS = {"minimum": "max", "maximum": "min"}
"""Operator -> the parameter of `clamp` that a number among its operands becomes."""


def numbers_written(exported: ExportedProgram) -> dict[str, float]:
    """Name -> value of the float constants that `forward` itself writes: `torch.tensor(0.5)`.

    A global tensor is a constant to `torch.export` too, but may change, and is left out."""
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    numbers = {}
    for spec in exported.graph_signature.input_specs:
        value = exported.constants.get(str(spec.target))
        if spec.kind is not InputKind.CONSTANT_TENSOR or not isinstance(value, torch.Tensor):
            continue
        is_number = value.dim() == 0 and value.is_floating_point() and not value.is_meta
        if is_number and all(map(_is_fresh, nodes[spec.arg.name].users)):
            numbers[str(spec.target)] = float(value)
    return {name: number for name, number in numbers.items() if not isnan(number)}


def _is_fresh(node: torch.fx.Node) -> bool:
    """Whether the node copies a tensor that `forward` wrote and that nothing else holds."""
    origins = node.meta.get("from_node", ())
    return any(str(origin.name).startswith("lift_fresh") for origin in origins)


def with_limits(program: Program, numbers: Mapping[str, float]) -> Program:
    """The program with clamps in place of minima and maxima with a tensor of one known number."""

    def limited(call: Call) -> Call:
        if call.op not in _LIMITS:
            return call
        one, other = call.arg("input"), call.arg("other")
        for value, limit in ((one, other), (other, one)):
            if limit.name in numbers:
                arguments = {"input": value, _LIMITS[call.op]: numbers[limit.name]}
                args, types = typed_call("clamp", arguments, program.type_of)
                return replace(call, op="clamp", args=args) if types == call.types else call
        return call

    return replace(program, calls=tuple(map(limited, program.calls)))
