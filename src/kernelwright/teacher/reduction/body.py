"""Lines of reduction kernels: index heads, loops over tiles, accumulators and their merges."""

from collections.abc import Iterable, Sequence

from kernelwright.teacher.nodes.graph import COUNT, KernelStage, Tensor, is_huge, nodes_behind
from kernelwright.teacher.pointwise.tile import TileWriter
from kernelwright.teacher.reduction.accumulators import Accumulator, TileShape
from kernelwright.teacher.reduction.plan import geometry
from kernelwright.teacher.text.fixed_sizes import StageSchedule
from kernelwright.teacher.text.scope import IndexScope, launch_order
from kernelwright.teacher.text.space import StageSpace


def levels(stage: KernelStage) -> dict[str, int]:
    """The number of loops over the row that must end before each node is known.

    Returns:
        Node name -> number of loops. A reduction has the level after the one of its operand.
    """
    level_of: dict[str, int] = {}
    for name, node in stage.nodes.items():
        if node.reduce:
            # The second reduction of a pair reads the first in the graph. The running form of the
            # pair needs the value alone, so both are known after one loop.
            level_of[name] = level_of[node.pair.value if node.pair else node.args[0]] + 1
        else:
            level_of[name] = max((level_of[arg] for arg in node.args), default=0)
    return level_of


def accumulators(stage: KernelStage) -> list[Accumulator]:
    """The stage's reductions as running states, in graph order; a pair is one accumulator."""
    nodes = [node for node in stage.nodes.values() if node.reduce]
    # The first reduction of a pair gets its state from the second, so it has no state of its own.
    paired = {node.pair.first for node in nodes if node.pair}
    states = []
    for node in nodes:
        if node.pair:
            results = (node.pair.first, node.name)
            states.append(
                Accumulator(node.pair.kind, node.pair.value, results, node.dtype, node.op)
            )
        elif node.name not in paired:
            dtype = node.compared if node.reduce.startswith("arg") else node.dtype
            states.append(Accumulator(node.reduce, node.args[0], (node.name,), dtype, node.op))
    return states


class Body(TileWriter):
    """The lines of one reduction kernel, as parts that `rows` and `split` put in order.

    A body records the sizes and tensors that its lines use, so each kernel has a body of its own.
    """

    def __init__(self, space: StageSpace, schedule: StageSchedule, suffix: str) -> None:
        """A body without lines, for one stage in one schedule.

        Args:
            suffix: part of the kernel's name, to tell stages apart.
        """
        self.schedule, self.suffix = schedule, suffix
        self.outer, self.rows, self.cols = geometry(space, schedule.rows)
        groups = [g for g in (self.outer, self.rows, self.cols) if g]
        super().__init__(space, IndexScope(groups))
        self.tile = TileShape(schedule.rows > 1)
        self.level = levels(self.stage)
        self.known: set[str] = set()
        """Row values that are computed by now."""
        self.written: set[str] = set()
        """Nodes that have lines."""
        self._wide = ".to(tl.int64)" if is_huge(self.stage) else ""
        wanted = [self.outer.blocks(1)] if self.outer else []
        wanted += [self.rows.blocks(schedule.rows)] if self.rows.axes else []
        self._order = launch_order(*wanted)
        """Places of the kept axes' blocks along x and y."""

    @property
    def count(self) -> str:
        """Argument that holds the number of reduced elements, recorded as used."""
        return self.scope.count(self.cols)

    # -- index lines

    def grid(self, height: str) -> list[str]:
        """Texts of the grid sizes of the kept axes, in the order of `program_id`.

        Args:
            height: text of the number of rows of a tile.
        """
        outer, rows = self.outer, self.rows
        sizes = [self.scope.count(outer)] if outer else []
        if rows.axes:
            count = self.scope.count(rows)
            many = self.schedule.rows > 1
            sizes.append(f"triton.cdiv({count}, {height})" if many else count)
        return [sizes[at] for at in self._order]

    def head(self) -> list[str]:
        """Lines that compute the kept positions.

        Call this method last: only then is it known which slices of positions the lines need.
        """
        lines = []
        outer, rows = self.outer, self.rows
        # `launch_order` may swap x and y, because y allows 65535 blocks only.
        numbers = [f"tl.program_id({self._order.index(at)})" for at in sorted(self._order)]
        if outer:
            lines += [f"{outer.var} = {numbers[0]}{self._wide}", *self.scope.indices(outer)]
        if rows.axes:
            position = f"{numbers[-1]}{self._wide}"
            if self.schedule.rows > 1:
                position += " * ROWS + tl.arange(0, ROWS)[:, None]"
            lines += [f"{rows.var} = {position}", *self.scope.indices(rows)]
        return lines

    def tile_lines(self, position: str, inner: Sequence[str]) -> list[str]:
        """Lines of one tile: the reduced positions, the mask, then `inner`.

        Args:
            position: text of the reduced positions.
            inner: lines over the tile. They must exist before this call, which writes the
                variables of position slices that they asked for.
        """
        cols = self.cols
        lines = [f"{cols.var} = {position}", *self.scope.indices(cols)]
        # The next tile is in another loop and has to compute its slices anew.
        self.scope.view[cols.var].parts.clear()
        return [*lines, f"mask = {self.full_mask}", *inner]

    # -- nodes

    def needed(self, wanted: Iterable[str], *, full: bool) -> list[str]:
        """Loads and maps that `wanted` depends on and that are not known yet, in graph order.

        The search stops at reductions, because accumulators compute these.

        Args:
            wanted: names of nodes.
            full: True for nodes over the whole domain, False for values a row.
        """
        nodes = self.stage.nodes
        live = nodes_behind(nodes, wanted, self.known, passes_reductions=False)
        return [
            name
            for name in nodes
            if name in live and not nodes[name].reduce and self.stage.is_full(name) == full
        ]

    def compute(self, names: Sequence[str]) -> list[str]:
        """Lines that load or compute these nodes, none of which is a reduction."""
        self.written.update(names)
        texts = (self.stage.nodes[name].text for name in names)
        count = self.count if any(COUNT in text for text in texts) else ""
        lines = (self.assign(name, count, self.cols.var) for name in names)
        return [line for block in lines for line in block]

    def widened(self, position: str) -> str:
        """A position's text, as int64 where offsets need it."""
        return f"({position}){self._wide}" if self._wide else position

    def row_values(self, wanted: Iterable[str], level: int) -> list[str]:
        """Lines for the row values behind `wanted` that are known after `level` loops."""
        names = [n for n in self.needed(wanted, full=False) if self.level[n] <= level]
        lines = self.compute(names)
        self.known.update(names)
        return lines

    def is_clean(self, name: str) -> bool:
        """Whether the node's tile holds zeros beyond the row, because a masked load filled it."""
        return self.stage.is_loaded(name) and self.stage.is_full(name)

    # -- loops

    def loop(
        self, bounds: tuple[str, str], running: Sequence[Accumulator], stores: Sequence[Tensor]
    ) -> list[str]:
        """Lines of a loop over tiles that feeds accumulators and stores outputs.

        Args:
            bounds: texts of the first position and of the end (exclusive).
            running: accumulators of one level.
            stores: outputs over the whole domain that are known at this level.
        """
        begin, end = bounds
        wanted = [acc.value for acc in running] + [tensor.node for tensor in stores]
        inner = self.compute(self.needed(wanted, full=True))
        seen = f"({f'start - {begin}' if begin != '0' else 'start'}) // BLOCK + 1"
        seen = seen.replace("(start)", "start")
        for acc in running:
            clean = self.is_clean(acc.value)
            inner += acc.step("mask", self.cols.var, f"({seen})", is_clean=clean)
        inner += [self.store(tensor) for tensor in stores]
        body = self.tile_lines(self.widened(f"start + {self.tile.lanes}"), inner)
        lines = [line for acc in running for line in acc.start(self.tile)]
        lines.append(f"for start in range({begin}, {end}, BLOCK):")
        return [*lines, *(f"    {line}" for line in body)]

    def seen_lines(self, running: Sequence[Accumulator], begin: str, end: str) -> list[str]:
        """The line that counts the elements which each lane has added, if "moments" need it."""
        if not any(acc.kind == "moments" for acc in running):
            return []
        length = end if begin == "0" else f"{end} - {begin}"
        # Lane i adds the positions i, i + BLOCK and so on, as far as they lie inside the row.
        return [f"seen = tl.cdiv({length} - {self.tile.lanes}, BLOCK)"]

    def row_stores(self) -> list[Tensor]:
        """Outputs with one value a row."""
        return [t for t in self.stage.outputs if not self.stage.is_full(t.node)]

    def full_stores(self, level: int) -> list[Tensor]:
        """Outputs over the whole domain that are known after exactly `level` loops."""
        full = self.stage.is_full
        return [t for t in self.stage.outputs if full(t.node) and self.level[t.node] == level]

    def at_level(self, level: int) -> list[Accumulator]:
        """Reductions whose value is known after `level` loops, so that the next loop feeds them."""
        return [acc for acc in accumulators(self.stage) if self.level[acc.value] == level]


def grid_text(sizes: Sequence[str]) -> str:
    """The launch grid as the text of a tuple; one program if there are no sizes."""
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})" if sizes else "(1,)"
