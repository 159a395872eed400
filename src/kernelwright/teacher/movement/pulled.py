"""Values in front of a reduction that are never in memory: joins, cuts, picks by index.

A stage reads such a value like an input. Instead of a load, the kernel has lines that pull the
value element by element, over the kernel's index variables.
"""

from collections.abc import Iterable

from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.fragments.fragment import CUTS
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.movement.rules import RULES
from kernelwright.teacher.nodes.graph import KernelStage, Tensor
from kernelwright.teacher.text.scope import IndexGroup, IndexScope
from kernelwright.teacher.text.space import StageSpace, axis_texts
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import AxisText, Index, Term, axes_of, times
from kernelwright.teacher.tile.views import is_elementwise, is_view


def behind(program: Program, names: Iterable[str], until: Call | None = None) -> tuple[Call, ...]:
    """The calls that values depend on, in program order.

    Args:
        names: the values.
        until: a call at which the search stops; the call itself is in the result.
    """
    producer, stack, seen = program.producer(), [*names], set[int]()
    while stack:
        at = producer.get(stack.pop())
        if at is not None and at not in seen:
            seen.add(at)
            stack += program.calls[at].refs() if program.calls[at] != until else ()
    return tuple(program.calls[at] for at in sorted(seen))


# `unfold` cuts windows that may overlap, so an element can show several times.
_KEPT = CUTS - {"unfold"} | names_with(Trait.REORDERS, Trait.CUTS_TRIANGLE) | {"arange", "full"}
"""Operators that show each element once at most, or read none."""


def may_grow(program: Program, name: str) -> bool:
    """Whether a value may have more elements than each input it is made of, at any sizes."""
    return not all(
        call.op in _KEPT or (call.op != "broadcast_to" and _is_of_one(call))
        for call in behind(program, [name])
    )


def _is_of_one(call: Call) -> bool:
    """Whether the call is a view of a single value, or is computed from it element by element."""
    return (is_view(call) or is_elementwise(call)) and len(list(call.refs())) == 1


class _PulledBody(TileBody):
    """A body over index variables, some of which are scalars instead of vectors of a tile."""

    def guarded(self, index: Index, condition: str) -> Index:
        """As in `TileBody`, but the index itself if it has scalar positions alone."""
        # A scalar load takes no mask of the tile's shape, and its address is valid in any case.
        is_tile = any(self.view[axis].bound or axis not in self._own for axis in axes_of(index))
        return super().guarded(index, condition) if is_tile else index


class Pulls:
    """The lines of the pulled values of one kernel."""

    def __init__(self, space: StageSpace, scope: IndexScope, *, is_wide: bool) -> None:
        """For a kernel over the index variables of `scope`."""
        self._space, self._scope, self._is_wide = space, scope, is_wide
        self._program = space.stage.graph.program
        self._sizes = ValueSizes(self._program)

    def lines(self, tensor: Tensor) -> list[str]:
        """The lines that compute a pulled value in the variable of its node.

        Raises:
            NotWritable: an operator on the way has no kernel text.
        """
        terms: dict[int, Term] = {}
        for group in self._scope.groups:
            terms |= self._terms(group)
        resolve = self._space.stage.graph.axes.resolve
        index = tuple(tuple(terms[axis] for axis in resolve(dim)) for dim in tensor.dims)
        body = _PulledBody(
            self._program,
            {group.var: self._axis(group) for group in self._scope.groups},
            self._sizes,
            RULES,
            is_wide=self._is_wide,
            tag=f"_{tensor.node}",
        )
        text = body.value(tensor.node, index)
        lines = [*body.slices(), *body.lines, f"{tensor.node} = {text}"]
        # A kernel that reads one dimension of a tensor is given all of them (`source.used_in`).
        dims = [symbol for read in tensor.reads for symbol in self._sizes.of(read.name)]
        for symbol, size in self._sizes.needed([*lines, *dims]).items():
            self._scope.sizes[symbol] = self._sizes.closed(size)
        return lines

    def _axis(self, group: IndexGroup) -> AxisText:
        bound = self._scope.count(group) if group.is_masked else ""
        return AxisText(group.var, bound=bound)

    def _terms(self, group: IndexGroup) -> dict[int, Term]:
        """Axis of the graph -> its slice of the index variable, for the axes that a group walks."""
        graph, texts = self._space.stage.graph, axis_texts(self._space.stage)
        axes = [one for axis in group.axes for one in self._space.members[axis.name]]
        names = _axis_names(self._space.stage)
        sizes = [self._sizes.symbol(texts[axis], names[axis]) for axis in axes]
        return {
            axis: Term(
                group.var, sizes[i], graph.axes.size(axis), times("1", *sizes[i + 1 :]), i == 0
            )
            for i, axis in enumerate(axes)
        }


def _axis_names(stage: KernelStage) -> dict[int, str]:
    """Axis of the graph -> name, after the first dimension that is this axis or holds the axis."""
    names: dict[int, str] = {}
    for tensor in (*stage.inputs, *stage.outputs):
        for at, dim in enumerate(tensor.dims):
            for part, axis in enumerate(dim):
                end = f"_{part}" if len(dim) > 1 else ""
                names.setdefault(axis, f"{tensor.node}D{at}{end}")
    return names
