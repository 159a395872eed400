"""Adds the nodes of a call to the graph of a program: the vocabulary of the operators' rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.graph import Node, NodeGraph, NodeValue, ReductionPair, count
from kernelwright.teacher.text.expressions import NotWritable

KEEP_NAN = "propagate_nan=tl.PropagateNan.ALL"
"""`tl.maximum` and `tl.minimum` drop NaN without this argument; PyTorch's losses pass NaN on."""


@dataclass(frozen=True, slots=True)
class RuleWriter:
    """Adds the nodes of one call to the graph, each named after the call's first result."""

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
        ref = self.arg(name)
        if not isinstance(ref, Ref):
            raise NotWritable(f"{self.call.op}: {name} is not a tensor")
        return self.graph.values[ref.name]

    def node(self, part: str, text: str, args: Sequence[str], dtype: str = "float32") -> str:
        """Adds a map; returns the name of its node.

        Args:
            part: the end of the name.
            text: the Triton expression of an element, with names of nodes.
            args: the nodes in the expression.
        """
        return self._map(f"{self.call.outputs[0]}_{part}", text, args, dtype)

    def _map(self, name: str, text: str, args: Sequence[str], dtype: str) -> str:
        self.graph.nodes[name] = Node(name, self.call.op, text, tuple(dict.fromkeys(args)), dtype)
        return name

    def widened(self, value: NodeValue) -> str:
        """Name of a node that holds the value in fp32; integers and bool get a further node."""
        if value.is_float:
            return value.node
        text = f"{value.node}.to(tl.float32)"
        return self._map(f"{value.node}_float", text, [value.node], "float32")

    def reduce(
        self,
        part: str,
        of: str,
        axes: Sequence[int],
        kind: str = "sum",
        dtype: str = "float32",
        pair: ReductionPair | None = None,
    ) -> str:
        """Adds a reduction of a node over axes; returns the name of the new node.

        Args:
            part: the end of the name.
            kind: "sum", "mean", "max", "min", "amax", "amin", "prod", "argmax" or "argmin".
            pair: the pair whose second reduction this is.
        """
        return self._reduce(f"{self.call.outputs[0]}_{part}", of, axes, kind, dtype, pair)

    def _reduce(
        self, name: str, of: str, axes: Sequence[int], kind: str, dtype: str,
        pair: ReductionPair | None = None, compared: str = "float32",
    ) -> str:  # fmt: skip
        if not axes:
            # The position of a single element is 0; the comparison gives it the tile's shape.
            text = f"tl.where({of} == {of}, 0, 0)" if kind in ("argmax", "argmin") else of
            return self._map(name, text, [of], dtype)
        self.graph.nodes[name] = Node(name, self.call.op, "", (of,), dtype, kind, pair, compared)
        self.graph.reduced_by[name] = tuple(axes)
        return name

    def end(self, text: str, args: Sequence[str], dims: Dims, output: int = 0) -> None:
        """Adds a result of the call, in its own dtype.

        Args:
            text: the expression of an element, with names of nodes.
            args: the nodes in the expression.
            dims: dimensions of the result.
        """
        name = self.call.outputs[output]
        self.show(self._map(name, text, args, self.call.types[output].dtype), dims, output)

    def end_reduced(
        self,
        kind: str,
        of: str,
        axes: Sequence[int],
        dims: Dims,
        output: int = 0,
        compared: str = "float32",
    ) -> None:
        """Adds a result of the call that is a reduction of a node, in the result's dtype.

        Args:
            compared: the type of the node, for "argmax" and "argmin".
        """
        name, dtype = self.call.outputs[output], self.call.types[output].dtype
        self.show(self._reduce(name, of, axes, kind, dtype, compared=compared), dims, output)

    def show(self, node: str, dims: Dims, output: int = 0) -> None:
        """Gives a result of the call an existing node, under its own dimensions."""
        name, result_type = self.call.outputs[output], self.call.types[output]
        self.graph.values[name] = NodeValue(node, dims, result_type)

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


Rule = Callable[[RuleWriter], None]
"""Adds the nodes of a call."""
