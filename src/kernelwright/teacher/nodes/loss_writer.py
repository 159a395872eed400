"""Adds the nodes of a loss or a distance to the graph of a program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.decompose import Rule, operand
from kernelwright.teacher.nodes.graph import NodeGraph, NodeValue, count

KEEP_NAN = "propagate_nan=tl.PropagateNan.ALL"
"""`tl.maximum` and `tl.minimum` drop NaN without this argument; PyTorch's losses pass NaN on."""


@dataclass(frozen=True, slots=True)
class LossWriter:
    """Adds the nodes of one call to the graph, each named after the call's result."""

    graph: NodeGraph
    call: Call

    def arg(self, name: str) -> Any:
        """The argument of the call: a `Ref`, or a plain value."""
        return self.call.arg(name)

    def operand(self, name: str = "input") -> NodeValue:
        """The value that a tensor operand names.

        Raises:
            NotWritable: the argument is a number or None.
        """
        return operand(self.graph, self.call, name)

    def node(self, part: str, text: str, args: Sequence[str]) -> str:
        """Adds a map in fp32; returns the name of its node.

        Args:
            part: the end of the name.
            text: the expression of an element, with names of nodes.
            args: the nodes in the expression.
        """
        name = f"{self.call.outputs[0]}_{part}"
        return self.graph.map(name, self.call.op, text, args, "float32")

    def reduce(self, part: str, of: str, axes: Sequence[int], kind: str = "sum") -> str:
        """Adds a sum or a mean of a node over axes; returns the name of the new node.

        Args:
            part: the end of the name.
            kind: "sum" or "mean".
        """
        return self.graph.reduce(f"{self.call.outputs[0]}_{part}", self.call.op, kind, of, axes)

    def end(self, text: str, args: Sequence[str], dims: Dims) -> None:
        """Adds the call's result, in its own dtype.

        Args:
            text: the expression of an element, with names of nodes.
            args: the nodes in the expression.
            dims: dimensions of the result.
        """
        [name], [result_type] = self.call.outputs, self.call.types
        self.graph.map(name, self.call.op, text, args, result_type.dtype)
        self.graph.values[name] = NodeValue(name, dims, result_type)

    def finish(self, loss: str, dims: Dims, weight: str = "", how: str = "") -> None:
        """Adds the call's result, made of the loss of each element or sample.

        Args:
            loss: node of the losses.
            dims: dimensions of the losses.
            weight: node of the weights by which a mean is divided; "" for a plain mean.
            how: "none", "sum" or "mean"; "" for the call's own `reduction`.
        """
        axes = tuple(axis for dim in dims for axis in dim)
        how = how or self.arg("reduction")
        if how == "none":
            self.end(loss, [loss], dims)
            return
        # A single sample has no axis: its loss is the total.
        total = self.reduce("total", loss, axes) if axes else loss
        text, args = total, [total]
        if how == "mean" and weight:
            # An ignored sample weighs 0, and PyTorch's mean over ignored samples alone is 0 / 0.
            shares = self.reduce("shares", weight, axes) if axes else weight
            text, args = f"{total} / {shares}", [total, shares]
        elif how == "mean":
            text = f"{total} / {count(axes)}" if axes else total
        self.end(text, args, ())

    def operands(self, *names: str) -> tuple[dict[str, str], Dims]:
        """(parameter -> node in fp32, dimensions) of the named operands that are tensors.

        The dimensions are those to which all these operands broadcast.
        """
        tensors = {n: self.operand(n) for n in names if isinstance(self.arg(n), Ref)}
        dims = self.graph.axes.broadcast([tensor.dims for tensor in tensors.values()])
        nodes = {}
        for name, tensor in tensors.items():
            nodes[name] = tensor.node
            if not tensor.is_float:
                nodes[name] = self.node(name, f"{tensor.node}.to(tl.float32)", [tensor.node])
        return nodes, dims


def rule_of(write: Callable[[LossWriter], None]) -> Rule:
    """The rule that writes the nodes of a call with a writer."""
    return lambda graph, call: write(LossWriter(graph, call))
