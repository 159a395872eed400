"""Reductions of few long rows: programs share a row, and pass partial states through memory.

For each level of reductions, one kernel writes a state for every (row, split). The kernels that
need the result, which are the next level and the kernel that stores, merge a row's states
themselves. A row has a few hundred states at most, so merging costs less than a launch.
"""

from collections.abc import Sequence

from kernelwright.teacher.nodes.graph import nodes_behind
from kernelwright.teacher.pointwise.tile import pointer
from kernelwright.teacher.reduction.accumulators import (
    Accumulator,
    ReductionState,
    TileShape,
    functions,
)
from kernelwright.teacher.reduction.body import Body, accumulators, grid_text
from kernelwright.teacher.source import Buffer, Kernel, WrapperPart, planned
from kernelwright.teacher.text.fixed_sizes import StageSchedule
from kernelwright.teacher.text.space import StageSpace


def write_two_pass(space: StageSpace, schedule: StageSchedule, suffix: str) -> WrapperPart:
    """One kernel of partial states for each level of reductions, and one kernel that finishes.

    The partial states have the shape (rows, splits).

    Args:
        suffix: part of the kernels' names, to tell stages apart.
    """
    # The probe writes no lines: levels and sizes are asked of it.
    probe = Body(space, schedule, suffix)
    top = max(probe.level.values())
    kernels: list[Kernel] = []
    sizes: dict[str, str] = {}
    # A reduction of another reduction's result needs that result whole, so levels are kernels: only
    # between kernels do all programs wait for each other.
    for level in range(top + 2):
        # Only the top level can lack reductions; the finishing kernel then stores its outputs.
        if level <= top and not probe.at_level(level):
            continue
        body = _SplitBody(space, schedule, suffix)
        kernels.append(body.partial(level) if level <= top else body.finish(top))
        sizes |= body.scope.sizes
    # A chunk is a multiple of the block: no block of a program crosses into another's chunk. Rows
    # shorter than all chunks have fewer splits, so n_splits is computed from the chunk.
    cols, blocks = probe.cols.count, f"{schedule.splits} * {schedule.block}"
    sizes["chunk"] = f"triton.cdiv({cols}, {blocks}) * {schedule.block}"
    sizes["n_splits"] = f"triton.cdiv({cols}, chunk)"
    rows = [group.count for group in (probe.outer, probe.rows) if group and group.axes]
    shape = (" * ".join(rows), "n_splits") if rows else ("n_splits",)
    buffers = [
        Buffer(name=_parts(state), sizes=shape, dtype=state.dtype)
        for acc in accumulators(space.stage)
        for state in acc.states
    ]
    extra = functions(line for kernel in kernels for line in kernel.body)
    return probe.part(kernels, sizes, buffers, extra)


def _parts(state: ReductionState) -> str:
    return state.name.removesuffix("_acc") + "_parts"


class _SplitBody(Body):
    """The lines of one kernel whose programs share rows."""

    def partial(self, level: int) -> Kernel:
        """The kernel of a level: each program reduces its chunk and stores the partial states."""
        running, stores = self.at_level(level), self.full_stores(level)
        wanted = [acc.value for acc in running] + [tensor.node for tensor in stores]
        lines = self._prologue(wanted, level)
        lines += [*self._chunk(), *self.loop(("begin", "end"), running, stores)]
        lines += self.seen_lines(running, "begin", "end")
        for acc in running:
            merged = [f"{_parts(state).removesuffix('_parts')}_part" for state in acc.states]
            lines += acc.merge(self.tile, merged, "seen", "(end - begin)", is_last=False)
            for state, name in zip(acc.states, merged, strict=True):
                # A tile of several rows can reach past the last row; the split always exists.
                mask = self.scope.mask(self.space.kept)
                masked = f", mask={mask}" if mask else ""
                lines.append(f"tl.store({self._address(state, 'split')}, {name}{masked})")
        self.written.update(result for acc in running for result in acc.results)
        return self._kernel(lines, f"partial_{level}" if level else "partial", is_split=True)

    def finish(self, top: int) -> Kernel:
        """The kernel that merges the states of the last level, and stores what depends on them."""
        is_at_top = bool(self.at_level(top))
        # Outputs over the whole domain went out with the partial states of this level.
        stores = [] if is_at_top else self.full_stores(top)
        rows = self.row_stores()
        wanted = [tensor.node for tensor in (*stores, *rows)]
        # Reductions of the top level have to be merged too, so the prologue goes one level further.
        lines = self._prologue(wanted, top + is_at_top)
        if stores:
            lines += [*self._chunk(), *self.loop(("begin", "end"), [], stores)]
            if rows:  # every split has the row's value: one of them stores it
                lines.append("if split == 0:")
                lines += [f"    {self.store(tensor)}" for tensor in rows]
        else:
            lines += [self.store(tensor) for tensor in rows]
        return self._kernel(lines, "finish", is_split=bool(stores))

    def _prologue(self, wanted: Sequence[str], level: int) -> list[str]:
        """Lines that compute the row values and merge the states behind `wanted`, level by level.

        Reductions end the search for nodes behind `wanted`: their states are in memory.
        """
        lines: list[str] = []
        behind = nodes_behind(self.stage.nodes, wanted, passes_reductions=False)
        for reached in range(level + 1):
            lines += self.row_values(sorted(behind), reached)
            for acc in self.at_level(reached):
                # Lower levels are merged by everybody who needs them: a few hundred states a row,
                # less than a launch.
                if reached < level and set(acc.results) & behind:
                    lines += self._merged(acc)
                    self.known.update(acc.results)
        if any("parts_ptr" in line for line in lines):
            mask = self.scope.mask(self.space.kept)
            part_mask = f"({mask}) & (part < n_splits)" if mask else "part < n_splits"
            head = [f"part = {self._splits.lanes}", f"part_mask = {part_mask}"]
            if any("seen" in line for line in lines):  # the last chunk of a row may be shorter
                rest = f"{self.count} - part * chunk"
                head.append(f"seen = tl.maximum(tl.minimum({rest}, chunk), 0)")
            lines = [*head, *lines]
        return lines

    @property
    def _splits(self) -> TileShape:
        """The tile of the states of all splits."""
        return TileShape(self.tile.has_rows, "SPLITS")

    def _merged(self, acc: Accumulator) -> list[str]:
        """Lines that load an accumulator's states of all splits and merge them into its results."""
        lines = []
        for state in acc.states:
            address = self._address(state, "part")
            # Lanes beyond the last split read the neutral state, which changes no result.
            lines.append(f"{state.name} = tl.load({address}, mask=part_mask, other={state.start})")
        return lines + acc.merge(self._splits, acc.results, "seen", self.count, is_last=True)

    def _address(self, state: ReductionState, split: str) -> str:
        """Pointer text of a row's partial states, at the splits that the text `split` names."""
        row = self.scope.offset(self.space.kept)
        if row == "0":
            return pointer(_parts(state), split)
        row = f"({row})" if " + " in row else row
        return pointer(_parts(state), f"{row} * n_splits + {split}")

    def _chunk(self) -> list[str]:
        return ["begin = split * chunk", f"end = tl.minimum(begin + chunk, {self.count})"]

    def _kernel(self, lines: list[str], suffix: str, *, is_split: bool) -> Kernel:
        schedule = self.schedule
        grid, head = self.grid(str(schedule.rows)), self.head()
        if is_split:
            # The split is the last grid dimension: `head` has numbered those of the rows before it.
            head.append(f"split = {self.widened(f'tl.program_id({len(grid)})')}")
            grid.append("n_splits")
        whole = [*head, *lines]
        text = " ".join(whole)
        constants = {"ROWS": str(schedule.rows)} if schedule.rows > 1 else {}
        if "BLOCK" in text:
            constants["BLOCK"] = str(schedule.block)
        if "SPLITS" in text:  # tl.arange needs a power of two
            constants["SPLITS"] = "triton.next_power_of_2(n_splits)"
        return self.kernel(
            schedule,
            whole,
            grid_text(grid),
            constants,
            {**planned(constants), "SPLITS": schedule.splits},
            suffix="_".join(filter(None, (self.suffix, suffix))),
            nodes=sorted(self.written | self.known),
            more=("chunk", "n_splits"),
        )
