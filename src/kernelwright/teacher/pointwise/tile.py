"""Lines that load, compute and store the nodes of a stage over one tile."""

from collections.abc import Iterable, Mapping, Sequence

from kernelwright.core.candidate import KernelPlan
from kernelwright.teacher.movement.pulled import Pulls, may_grow
from kernelwright.teacher.nodes.graph import COUNT, POSITION, KernelStage, Tensor, is_huge
from kernelwright.teacher.source import (
    Buffer,
    Kernel,
    WrapperPart,
    guard,
    kernel_name,
    pointers_in,
)
from kernelwright.teacher.stages import fused_ops
from kernelwright.teacher.text.fixed_sizes import StageSchedule
from kernelwright.teacher.text.scope import IndexScope
from kernelwright.teacher.text.space import StageSpace, shape_texts, size_text

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
        address, mask = self._place(tensor)
        # Padding takes part in reductions and needs a value; a pointwise store masks it anyway.
        filled = ", other=0" if mask and self.stage.reduced else ""
        widen = ".to(tl.float32)" if tensor.type.dtype in _HALF else ""
        return f"{tensor.node} = tl.load({address}{mask}{filled}){widen}"

    def store(self, tensor: Tensor) -> str:
        """The line that stores a tile of an output; `tl.store` casts to the pointer's dtype."""
        address, mask = self._place(tensor)
        return f"tl.store({address}, {tensor.node}{mask})"

    def _place(self, tensor: Tensor) -> tuple[str, str]:
        """(pointer text of a tile of a tensor, its mask as an argument or "")."""
        order = self.space.orders[tensor.name]
        mask = self.scope.mask(order)
        mask = "mask" if mask == self.full_mask and mask else mask
        address = pointer(tensor.name, self.scope.offset(order))
        return address, f", mask={mask}" if mask else ""

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

    def part(
        self,
        kernels: Sequence[Kernel],
        sizes: Mapping[str, str],
        buffers: Sequence[Buffer] = (),
        extra: Sequence[str] = (),
    ) -> WrapperPart:
        """The part of the wrapper that the stage becomes; its outputs are allocated first."""
        stage = self.stage
        outputs = [
            Buffer(
                name=tensor.name,
                sizes=shape_texts(stage, tensor),
                dtype=tensor.type.dtype,
                layout=tensor.type.layout,
            )
            for tensor in stage.outputs
        ]
        # Names of the tensors in memory, those behind pulled values included.
        reads = {one.name for t in stage.inputs for one in (t.reads if t.is_pulled else (t,))}
        return WrapperPart(
            kernels=kernels,
            sizes=sizes,
            reads=reads,
            buffers=[*outputs, *buffers],
            guard=() if is_huge(stage) else (_guard(stage, reads, [*outputs, *buffers]),),
            extra=extra,
        )


def _guard(stage: KernelStage, reads: set[str], buffers: Sequence[Buffer]) -> str:
    """The assertion that 32-bit offsets reach all that a stage reads or makes."""
    # A kernel also counts the elements of pulled values, which may be more than those of inputs.
    program = stage.graph.program
    parameters = [value.name for value in program.inputs]
    passed = [t.name for t in stage.inputs if t.name in reads and t.name not in parameters]
    names = [name for name in parameters if name in reads] + passed
    pulled = [t for t in stage.inputs if t.is_pulled and may_grow(program, t.name)]
    further = [size_text(stage, t.order) for t in pulled]
    return guard([*names, *(buffer.name for buffer in buffers)], further)


def pointer(name: str, offset: str) -> str:
    """Text of a tensor's pointer at an offset in elements."""
    return f"{name}_ptr" if offset == "0" else f"{name}_ptr + {offset}"
