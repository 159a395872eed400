"""Lines that load, compute and store the nodes of a stage over one tile."""

from collections.abc import Collection

from kernelwright.teacher.movement.pulled import Pulls
from kernelwright.teacher.nodes.graph import COUNT, POSITION, KernelStage, Tensor, is_huge
from kernelwright.teacher.text.scope import IndexScope
from kernelwright.teacher.text.space import StageSpace

_HALF = ("float16", "bfloat16")


class TileWriter:
    """Writes the lines of nodes, and records the tensors that become the kernel's arguments."""

    def __init__(self, stage: KernelStage, space: StageSpace, scope: IndexScope) -> None:
        """A writer for one kernel, over the index variables of `scope`."""
        self.stage, self.space, self.scope = stage, space, scope
        self.loaded: dict[str, None] = {}
        self.stored: dict[str, None] = {}
        self._pulls = Pulls(space, scope, is_wide=is_huge(stage))
        self._inputs = {tensor.node: tensor for tensor in stage.inputs}
        vector = [group for group in scope.groups if group.is_masked]
        self._full_mask = scope.mask([a.name for g in vector for a in g.axes])

    @property
    def full_mask(self) -> str:
        """The mask of the whole tile, for a line `mask = ...`."""
        return self._full_mask

    def load(self, tensor: Tensor) -> str:
        """The line that loads a tile of an input; 16-bit floats are widened to fp32."""
        self.loaded[tensor.name] = None
        order = self.space.orders[tensor.name]
        mask = self._mask(order)
        # Padding takes part in reductions and needs a value; a pointwise store masks it anyway.
        filled = ", other=0" if mask and self.stage.reduced else ""
        masked = f", mask={mask}{filled}" if mask else ""
        widen = ".to(tl.float32)" if tensor.type.dtype in _HALF else ""
        address = pointer(tensor.name, self.scope.offset(order))
        return f"{tensor.node} = tl.load({address}{masked}){widen}"

    def store(self, tensor: Tensor) -> str:
        """The line that stores a tile of an output; `tl.store` casts to the pointer's dtype."""
        self.stored[tensor.name] = None
        order = self.space.orders[tensor.name]
        mask = self._mask(order)
        masked = f", mask={mask}" if mask else ""
        address = pointer(tensor.name, self.scope.offset(order))
        return f"tl.store({address}, {tensor.node}{masked})"

    def _mask(self, axes: Collection[str]) -> str:
        mask = self.scope.mask(frozenset(axes))
        return "mask" if mask == self._full_mask and mask else mask

    def assign(self, name: str, count: str = "", position: str = "") -> list[str]:
        """The lines of a node: a load, a map, or the lines that pull a value.

        Args:
            count: text in place of COUNT, the number of reduced elements.
            position: text in place of POSITION, the position along the reduced axes.
        """
        node, tensor = self.stage.nodes[name], self._inputs.get(name)
        if tensor is None:
            text = node.text.replace(COUNT, count).replace(POSITION, position)
            return [f"{name} = {text}  # {node.op}"]
        if not tensor.is_pulled:
            return [self.load(tensor)]
        lines, read = self._pulls.lines(tensor)
        self.loaded |= dict.fromkeys(read)
        return lines

    @property
    def pointers(self) -> tuple[str, ...]:
        """Names of the tensors that the lines so far load or store."""
        return (*self.loaded, *self.stored)


def pointer(name: str, offset: str) -> str:
    """Text of a tensor's pointer at an offset in elements."""
    return f"{name}_ptr" if offset == "0" else f"{name}_ptr + {offset}"
