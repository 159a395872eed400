"""Program -> graph of primitive nodes: one rule an operator, pointwise ones all by one."""

from kernelwright.ops.operator import ParameterKind
from kernelwright.ops.rules import is_float
from kernelwright.programs.build import map_refs
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.movement.rules import CONSTANTS, MOVES, filled
from kernelwright.teacher.nodes.graph import NodeGraph, NodeValue
from kernelwright.teacher.nodes.rule_writer import Rule, RuleWriter
from kernelwright.teacher.text.expressions import (
    SELECTORS,
    NotWritable,
    expression,
    is_pointwise,
)
from kernelwright.teacher.tile.views import is_view, source


def decompose(program: Program, rules: dict[str, Rule]) -> NodeGraph:
    """The program as primitive nodes.

    Args:
        rules: operator -> rule, for operators that are not pointwise.

    Raises:
        NotWritable: an operator without a rule, or values that share no axes.
    """
    graph = NodeGraph(program)
    for call in program.calls:
        before = set(graph.nodes)
        if is_pointwise(call.op):
            _pointwise(RuleWriter(graph, call))
        elif call.op in rules:
            rules[call.op](RuleWriter(graph, call))
        elif call.op in CONSTANTS:
            _constant(RuleWriter(graph, call))
        elif call.op in MOVES:
            graph.pull(call)
        else:
            raise NotWritable(f"{call.op} is not fused here")
        # Rules name nodes freely, so the nodes of a call are those that were not there before.
        graph.makers |= {name: call for name in graph.nodes if name not in before}
    return graph


def positions_apart(program: Program) -> Program:
    """The program with an `arange` of its own, and views of it, for each use of positions.

    Rows and columns of a mask are often two views of one `arange`. Values that share axes cannot
    meet their own transpose; two `arange` have an axis each.
    """
    if all(call.op != "arange" for call in program.calls):
        return program
    makers: dict[str, Call] = {}
    used: set[str] = set()
    calls: list[Call] = []

    def copied(ref: Ref) -> Ref:
        if ref.name not in makers:
            return ref
        call = makers[ref.name]
        # The number of calls so far makes the name unique.
        result_type = Ref(f"{ref.name}p{len(calls)}")
        calls.append(Call(call.op, map_refs(call.args, copied), (result_type.name,), call.types))
        return result_type

    def own(ref: Ref) -> Ref:
        if ref.name in used:
            return copied(ref)
        used.add(ref.name)
        return ref

    for call in program.calls:
        args = map_refs(call.args, lambda ref: own(ref) if ref.name in makers else ref)
        calls.append(Call(call.op, args, call.outputs, call.types))
        if call.op == "arange" or (is_view(call) and source(call) in makers):
            makers[call.outputs[0]] = call
    return Program(program.inputs, tuple(calls), program.outputs)


def _constant(writer: RuleWriter) -> None:
    """Adds the node of a call that makes one number in place of each element (full, zeros_like)."""
    graph, call = writer.graph, writer.call
    like = next(call.refs(), None)
    new = graph.axes.new
    # zeros_like has the axes of its operand. `full` has new axes, which later operands may unite.
    dims = graph.values[like].dims if like else tuple(map(new, call.types[0].shape))
    writer.end(filled(call), [], dims)


def _pointwise(writer: RuleWriter) -> None:
    """Adds the node of a pointwise call, over the axes to which its operands broadcast.

    Raises:
        NotWritable: the operator has no text with these arguments, or operands share no axes.
    """
    call = writer.call
    texts: dict[str, str] = {}
    values: list[NodeValue] = []
    makes_float = is_float(call.types[0].dtype)
    for param in call.operator.params:
        if param.kind is ParameterKind.ATTRIBUTE or not isinstance(call.arg(param.name), Ref):
            continue
        value = writer.operand(param.name)
        values.append(value)
        # Integers become fp32 before they meet floats, as PyTorch promotes them. Conditions and
        # masks stay truth values.
        widen = makes_float and not value.is_float and param.name not in SELECTORS
        texts[param.name] = f"{value.node}.to(tl.float32)" if widen else value.node
    dims = writer.graph.axes.broadcast([value.dims for value in values])
    text = expression(call, texts, writer.graph.rounded)
    writer.end(text, [value.node for value in values], dims)
