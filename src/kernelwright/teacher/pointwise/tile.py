"""Lines that load, compute and store the nodes of a stage over one tile."""

from collections.abc import Collection

from kernelwright.teacher.movement.pulled import Pulls
from kernelwright.teacher.nodes.graph import COUNT, POSITION, KernelStage, Tensor, is_huge
from kernelwright.teacher.text.scope import IndexScope
from kernelwright.teacher.text.space import StageSpace

_HALF = ("float16", "bfloat16")


class TileWriter:
    """Emits assignments for nodes; keeps what the kernel's arguments must be."""

    def __init__(self, stage: KernelStage, space: StageSpace, scope: IndexScope) -> None:
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
        """A tile of an input, floats widened to fp32."""
        self.loaded[tensor.name] = None
        order = self.space.orders[tensor.name]
        mask = self._mask(order)
        filled = ", other=0" if mask and self.stage.reduced else ""
        masked = f", mask={mask}{filled}" if mask else ""
        widen = ".to(tl.float32)" if tensor.type.dtype in _HALF else ""
        address = pointer(tensor.name, self.scope.offset(order))
        return f"{tensor.node} = tl.load({address}{masked}){widen}"

    def store(self, tensor: Tensor) -> str:
        """A tile of an output; the store narrows it to the output's dtype."""
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
        """The line of a load or map node, or those that pull a value; the texts replace the
        placeholders."""
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
        return (*self.loaded, *self.stored)


def pointer(name: str, offset: str) -> str:
    return f"{name}_ptr" if offset == "0" else f"{name}_ptr + {offset}"
