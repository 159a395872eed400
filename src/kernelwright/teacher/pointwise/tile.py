"""Lines that load, compute and store the nodes of a stage over one tile."""

from collections.abc import Collection, Iterable, Sequence

from kernelwright.core.candidate import KernelPlan
from kernelwright.teacher.movement.pulled import Pulls
from kernelwright.teacher.nodes.graph import COUNT, POSITION, Tensor, is_huge
from kernelwright.teacher.source import Kernel, kernel_name, pointers_in
from kernelwright.teacher.stages import fused_ops
from kernelwright.teacher.text.fixed_sizes import StageSchedule
from kernelwright.teacher.text.scope import IndexScope
from kernelwright.teacher.text.space import StageSpace

_HALF = ("float16", "bfloat16")


class TileWriter:
    """Writes the lines of nodes."""

    def __init__(self, space: StageSpace, scope: IndexScope) -> None:
        """A writer for one kernel, over the index variables of `scope`."""
        self.stage, self.space, self.scope = space.stage, space, scope
        self._pulls = Pulls(space, scope, is_wide=is_huge(self.stage))
        self._inputs = {tensor.node: tensor for tensor in self.stage.inputs}
        vector = [group for group in scope.groups if group.is_masked]
        self.full_mask = scope.mask([a.name for g in vector for a in g.axes])
        """The mask of the whole tile, for a line `mask = ...`."""

    def load(self, tensor: Tensor) -> str:
        """The line that loads a tile of an input; 16-bit floats are widened to fp32."""
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
        order = self.space.orders[tensor.name]
        mask = self._mask(order)
        masked = f", mask={mask}" if mask else ""
        address = pointer(tensor.name, self.scope.offset(order))
        return f"tl.store({address}, {tensor.node}{masked})"

    def _mask(self, axes: Collection[str]) -> str:
        mask = self.scope.mask(frozenset(axes))
        return "mask" if mask == self.full_mask and mask else mask

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
        return self._pulls.lines(tensor)

    def kernel(
        self,
        schedule: StageSchedule,
        lines: Sequence[str],
        grid: str,
        constants: dict[str, str],
        tiles: dict[str, int],
        *,
        loop: str = "",
        suffix: str = "",
        nodes: Iterable[str] | None = None,
        more: Sequence[str] = (),
    ) -> Kernel:
        """The kernel of these lines.

        Args:
            constants: constexpr arguments -> their texts at the launch.
            tiles: tile sizes of the plan.
            loop: name of the loop, unless it is that of the schedule's form.
            suffix: part of the kernel's name, to tell kernels apart.
            nodes: the nodes that the kernel computes; None for all of the stage.
            more: further sizes that the kernel may name.
        """
        plan = KernelPlan(
            kernel=kernel_name(self.stage.graph.program, suffix),
            fuses=fused_ops(self.stage, self.stage.nodes if nodes is None else nodes),
            loop=loop or schedule.form,
            tiles={**tiles, "num_warps": schedule.num_warps},
            why=schedule.why,
        )
        sizes, known = self.scope.given(lines, is_fixed=schedule.is_fixed, more=more)
        return Kernel(
            plan=plan,
            pointers=pointers_in(lines),
            sizes=sizes,
            body=tuple(lines),
            grid=grid,
            constants=constants | known,
        )


def pointer(name: str, offset: str) -> str:
    """Text of a tensor's pointer at an offset in elements."""
    return f"{name}_ptr" if offset == "0" else f"{name}_ptr + {offset}"
