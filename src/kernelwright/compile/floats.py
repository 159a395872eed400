"""Floats that Dynamo makes inputs: where values vary, a float is a tensor of one number on the CPU,
which the graph reads with `item`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.node import map_aggregate


@dataclass(frozen=True, slots=True)
class Floats:
    """Floats that a program has as constants."""

    values: tuple[tuple[int, float], ...]
    """(position of an input of the graph, the number in the call that was compiled)."""

    def are_those_of(self, inputs: Sequence[Any]) -> bool:
        """Whether a call has the same numbers."""
        return all(float(inputs[position]) == value for position, value in self.values)


NO_FLOATS = Floats(())


def may_be_float(value: Any) -> bool:
    """Whether an input may be a float that Dynamo made a tensor."""
    is_tensor = isinstance(value, torch.Tensor)
    return is_tensor and not value.dim() and value.is_cpu and value.dtype == torch.float64


def with_floats(
    graph: torch.fx.GraphModule, inputs: Sequence[Any]
) -> tuple[torch.fx.GraphModule, Floats]:
    """The graph with its floats as constants. The inputs stay, and nothing reads them.

    Args:
        graph: is changed.
    """
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    values = []
    for position, (node, value) in enumerate(zip(placeholders, inputs, strict=True)):
        reads = list(node.users)
        is_read = bool(reads) and all(_reads_number(user) for user in reads)
        if not (may_be_float(value) and is_read):
            continue
        number = float(value)
        values.append((position, number))
        for read in reads:
            _replace(read, number)
            graph.graph.erase_node(read)
    if values:
        graph.recompile()
    return graph, Floats(tuple(values))


def _reads_number(node: torch.fx.Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def _replace(node: torch.fx.Node, number: float) -> None:
    """Give a number to all that use a node."""

    def replaced(argument: Any) -> Any:
        return number if argument is node else argument

    for user in list(node.users):
        user.args = map_aggregate(user.args, replaced)
        user.kwargs = map_aggregate(user.kwargs, replaced)
