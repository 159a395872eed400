"""Programs as stages: one for each set of axes that reductions run over, in turn.

A stage hands row values to the next through memory: the loss of each sample, then their mean.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from kernelwright.ops.operator import TensorType
from kernelwright.ops.rules import is_float
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.movement.pulled import behind
from kernelwright.teacher.nodes.decompose import decompose, positions_apart
from kernelwright.teacher.nodes.graph import KernelStage, Node, NodeGraph, Tensor, nodes_behind
from kernelwright.teacher.nodes.losses import LOSSES
from kernelwright.teacher.nodes.norms import NORMS
from kernelwright.teacher.nodes.reductions import REDUCTIONS
from kernelwright.teacher.nodes.rule_writer import Rule
from kernelwright.teacher.nodes.views import VIEWS
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.space import walk_order
from kernelwright.teacher.text.value_sizes import ValueSizes

RULES: dict[str, Rule] = {**VIEWS, **REDUCTIONS, **NORMS, **LOSSES}
"""Operators that are not pointwise -> rule."""
FREE = VIEWS.keys() - {"to_layout"} | {"arange"}
"""Operators that are no work of their own inside a kernel."""


@lru_cache(maxsize=64)
def stages_of(program: Program) -> tuple[KernelStage, ...]:
    """The program's stages in execution order; an empty tuple if the program has no such form."""
    try:
        program = positions_apart(program)
        return _split(decompose(program, RULES), program)
    except NotWritable:
        return ()


def fused_ops(stage: KernelStage, nodes: Iterable[str]) -> tuple[str, ...]:
    """The operators that a kernel of a stage computes, in program order.

    Views and positions are left out, unless the program has nothing else.

    Args:
        nodes: names of the nodes that the kernel writes.
    """
    program, calls = stage.graph.program, set[Call]()
    for name in nodes:
        if stage.nodes[name].op:
            calls.add(stage.graph.makers[name])
        elif name in stage.graph.pulled:
            calls.update(behind(program, [name]))
    ops = tuple(c.op for c in program.calls if c in calls and c.op not in FREE)
    return ops or tuple(call.op for call in program.calls)


def _pulled(graph: NodeGraph, program: Program) -> list[Tensor]:
    """The pulled values of a graph as tensors, which stages read as if they were in memory.

    Raises:
        NotWritable: the sizes of a pulled value have no text.
    """
    sizes, tensors = ValueSizes(program), []
    for name in graph.pulled:
        value = graph.values[name]
        texts = (sizes.symbols.get(text, text) for text in sizes.of(name))
        read = {ref for call in behind(program, [name]) for ref in call.refs()}
        tensors.append(
            Tensor(
                name=name,
                node=name,
                type=value.type,
                dims=tuple(map(graph.axes.resolve, value.dims)),
                sizes=tuple(map(sizes.closed, texts)),
                reads=tuple(value_read for value_read in program.inputs if value_read.name in read),
                is_pulled=True,
            )
        )
    return tensors


@dataclass(frozen=True, slots=True)
class _Cut:
    """The assignment of nodes to stages."""

    nodes: dict[str, Node]
    number: dict[str, int]
    """Node -> stage."""
    reduced: tuple[frozenset[int], ...]
    free: frozenset[str]
    """Nodes with no reduction behind them: a stage computes them again."""

    def crosses(self, arg: str, stage: int) -> bool:
        """Whether a stage must read the node from memory, because an earlier stage makes it."""
        return self.number[arg] < stage and arg not in self.free


def _split(graph: NodeGraph, program: Program) -> tuple[KernelStage, ...]:
    """The stages of a complete graph.

    Raises:
        NotWritable: the graph has no such form; the message says why.
    """
    # Axes are final only now: rules split and unite them while they add nodes.
    resolve = graph.axes.resolve
    inputs = [
        Tensor(i.name, i.name, i.type, tuple(map(resolve, graph.values[i.name].dims)))
        for i in program.inputs
    ]
    pulled = _pulled(graph, program)
    outputs = []
    for name in dict.fromkeys(program.outputs):
        value = graph.values[name]
        outputs.append(Tensor(name, value.node, value.type, tuple(map(resolve, value.dims))))
    outputs = [tensor for tensor in outputs if tensor.name not in {i.name for i in inputs}]
    inputs += pulled
    nodes = graph.settled(inputs)
    # Dead nodes must not be cut: a reduction that nobody reads would become a stage.
    live = nodes_behind(nodes, [tensor.node for tensor in outputs])
    cut = _cut(graph, {name: node for name, node in nodes.items() if name in live})
    buffers = [
        _buffer(graph, cut, name, inputs)
        for name in cut.nodes
        if any(cut.crosses(name, cut.number[user]) for user in _users(cut, name))
    ]
    return tuple(
        _stage(graph, cut, at, inputs, outputs, buffers) for at in range(max(1, len(cut.reduced)))
    )


def _cut(graph: NodeGraph, nodes: dict[str, Node]) -> _Cut:
    """Puts each node into the first stage that can compute it.

    A reduction goes to the first stage, not before its operand's, that reduces the same axes.
    """
    number: dict[str, int] = {}
    reduced: list[frozenset[int]] = []
    free: set[str] = set()
    for name, node in nodes.items():
        at = max((number[arg] for arg in node.args), default=0)
        if node.reduce:
            axes = frozenset(graph.axes.resolve(graph.reduced_by[name]))
            while at < len(reduced) and reduced[at] != axes:
                at += 1
            if at == len(reduced):
                reduced.append(axes)
        elif all(arg in free for arg in node.args):
            free.add(name)
        number[name] = at
    return _Cut(nodes, number, tuple(reduced), frozenset(free))


def _users(cut: _Cut, name: str) -> Iterable[str]:
    return (user for user, node in cut.nodes.items() if name in node.args)


def _buffer(graph: NodeGraph, cut: _Cut, name: str, inputs: Sequence[Tensor]) -> Tensor:
    """Memory for a row value that a later stage reads, with its axes in the order of some input.

    Raises:
        NotWritable: the value varies along the reduced axes. Two fragments do as well then.
    """
    node = cut.nodes[name]
    if node.axes & cut.reduced[cut.number[name]]:
        raise NotWritable("a reduction of a whole result of another")
    orders = [tensor.order for tensor in inputs if node.axes <= set(tensor.order)]
    order = [axis for axis in orders[0] if axis in node.axes] if orders else sorted(node.axes)
    dtype = "float32" if is_float(node.dtype) else node.dtype
    buffer_type = TensorType(tuple(map(graph.axes.size, order)), dtype)
    return Tensor(f"{name}_rows", name, buffer_type, tuple((axis,) for axis in order))


def _stage(
    graph: NodeGraph, cut: _Cut, at: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor],
    buffers: Sequence[Tensor],
) -> KernelStage:  # fmt: skip
    mine = [t for t in (*outputs, *buffers) if cut.number[t.node] == at]
    read = {t.node: t for t in buffers if cut.number[t.node] < at}
    # A value that is read from memory becomes a load, so that nothing behind it is computed again.
    nodes = {
        name: replace(node, op="", text="", args=(), reduce="", pair=None) if name in read else node
        for name, node in cut.nodes.items()
    }
    live = nodes_behind(nodes, [tensor.node for tensor in mine])
    nodes = {name: node for name, node in nodes.items() if name in live}
    # A kernel walks one set of axes. Without a value over all of them, the stage would compute a
    # product of two domains that nobody asked for.
    covering = [*(node.axes for node in nodes.values()), *(frozenset(t.order) for t in mine)]
    if frozenset().union(*covering) not in covering:
        raise NotWritable("parts that share no domain")
    read_here = [t for t in (*inputs, *read.values()) if t.node in nodes]
    if not read_here:
        raise NotWritable("nothing is read")
    reduced = cut.reduced[at] if cut.reduced else frozenset()
    stage = KernelStage(nodes, tuple(read_here), tuple(mine), reduced, graph)
    _check_positions(stage)
    return stage


def _check_positions(stage: KernelStage) -> None:
    """Checks that argmax and argmin count positions in the order of their dimensions.

    A kernel counts positions along several axes in the order in which it walks these axes.

    Raises:
        NotWritable: the two orders differ.
    """
    walked = [axis for axis in walk_order(stage) if axis in stage.reduced]
    for name, node in stage.nodes.items():
        if node.reduce in ("argmax", "argmin"):
            over = stage.graph.axes.resolve(stage.graph.reduced_by[name])
            if list(over) != walked:
                raise NotWritable("a flat position in another order than memory's")
