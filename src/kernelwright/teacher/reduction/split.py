"""Reductions of few long rows: programs share a row, and pass partial states through memory.

For each level of reductions, one kernel writes a state for every (row, split). The kernels that
need the result, which are the next level and the kernel that stores, merge a row's states
themselves. This is cheap and saves a launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.teacher.nodes.graph import nodes_behind
from kernelwright.teacher.pointwise.tile import pointer
from kernelwright.teacher.reduction.accumulators import (
    Accumulator,
    ReductionState,
    TileShape,
    functions,
)
from kernelwright.teacher.reduction.body import Body, accumulators, at_level, grid_text, group_sizes
from kernelwright.teacher.source import Buffer, Kernel, planned
from kernelwright.teacher.text.fixed_sizes import StageSchedule
from kernelwright.teacher.text.space import StageSpace
from kernelwright.teacher.wrapper import WrapperPart


@dataclass(frozen=True, slots=True)
class _SplitTask:
    """The arguments that all kernels of a two_pass candidate share."""

    space: StageSpace
    schedule: StageSchedule
    suffix: str
    running: Sequence[Accumulator]


def write_two_pass(space: StageSpace, schedule: StageSchedule, suffix: str) -> WrapperPart:
    """One kernel of partial states for each level of reductions, and one kernel that finishes.

    The partial states have the shape (rows, splits).

    Args:
        suffix: part of the kernels' names, to tell stages apart.
    """
    task = _SplitTask(space, schedule, suffix, accumulators(space.stage))
    probe = Body(space, schedule)
    top = max(probe.level.values())
    kernels: list[Kernel] = []
    sizes: dict[str, str] = {}
    # A reduction of another reduction's result needs that result whole, so levels are kernels: only
    # between kernels do all programs wait for each other.
    for level in range(top + 1):
        if at_level(task.running, probe, level):
            kernels.append(_partial(task, level, sizes))
    kernels.append(_finish(task, top, sizes))
    cols = probe.place.cols.count
    # A chunk is a multiple of the block: no block of a program crosses into another's chunk. Rows
    # shorter than all chunks have fewer splits, so n_splits is computed from the chunk.
    blocks = f"{schedule.splits} * {schedule.block}"
    sizes["chunk"] = f"triton.cdiv({cols}, {blocks}) * {schedule.block}"
    sizes["n_splits"] = f"triton.cdiv({cols}, chunk)"
    buffers = _buffers(task, probe)
    extra = functions(line for kernel in kernels for line in kernel.body)
    return WrapperPart(
        stage=space.stage, kernels=kernels, sizes=sizes, buffers=buffers, extra=extra
    )


def _buffers(task: _SplitTask, body: Body) -> list[Buffer]:
    rows = group_sizes([body.place.outer, body.place.rows])
    sizes = ("n_splits",) if rows == "1" else (rows, "n_splits")
    return [
        Buffer(name=_parts(state), sizes=sizes, dtype=state.dtype)
        for acc in task.running
        for state in acc.states
    ]


def _parts(state: ReductionState) -> str:
    return state.name.removesuffix("_acc") + "_parts"


def _partial(task: _SplitTask, level: int, sizes: dict[str, str]) -> Kernel:
    """The kernel of one level: each program reduces its chunk and stores the partial states.

    Args:
        sizes: size arguments -> wrapper text; the kernel's own are added.
    """
    body = Body(task.space, task.schedule)
    running, stores = at_level(task.running, body, level), body.full_stores(level)
    wanted = [acc.value for acc in running] + [tensor.node for tensor in stores]
    lines = _prologue(task, body, wanted, level)
    lines += [*_chunk(body), *body.loop(("begin", "end"), running, stores)]
    lines += body.seen_lines(running, "begin", "end")
    for acc in running:
        merged = [f"{_parts(state).removesuffix('_parts')}_part" for state in acc.states]
        lines += acc.merge(body.tile, merged, "seen", "(end - begin)", is_last=False)
        for state, name in zip(acc.states, merged, strict=True):
            body.writer.stored[_parts(state)] = None
            # A tile of several rows can reach past the last row; the split always exists.
            mask = body.scope.mask(frozenset(task.space.kept))
            masked = f", mask={mask}" if mask else ""
            lines.append(f"tl.store({_address(body, state, 'split')}, {name}{masked})")
    body.written.update(result for acc in running for result in acc.results)
    suffix = f"partial_{level}" if level else "partial"
    return _kernel(task, body, lines, suffix, sizes, is_split=True)


def _finish(task: _SplitTask, top: int, sizes: dict[str, str]) -> Kernel:
    """The kernel that merges the states of the last level and stores what depends on them."""
    body = Body(task.space, task.schedule)
    at_top = {acc.value for acc in at_level(task.running, body, top)}
    stores, rows = body.full_stores(top), body.row_stores()
    if at_top:
        # Outputs over the whole domain went out with the partial states of this level.
        stores = []
    wanted = [tensor.node for tensor in (*stores, *rows)]
    lines = _prologue(task, body, wanted, top + bool(at_top))
    if stores:
        lines += [*_chunk(body), *body.loop(("begin", "end"), [], stores)]
        if rows:  # every split has the row's value: one of them stores it
            lines.append("if split == 0:")
            lines += [f"    {body.writer.store(tensor)}" for tensor in rows]
    else:
        lines += [body.writer.store(tensor) for tensor in rows]
    return _kernel(task, body, lines, "finish", sizes, is_split=bool(stores))


def _prologue(task: _SplitTask, body: Body, wanted: Sequence[str], level: int) -> list[str]:
    """Lines that compute the row values and merge the states behind `wanted`, level by level."""
    lines: list[str] = []
    behind = nodes_behind(task.space.stage.nodes, wanted, passes_reductions=False)
    for reached in range(level + 1):
        lines += body.row_values(sorted(behind), reached)
        for acc in at_level(task.running, body, reached):
            # Lower levels are merged by everybody who needs them: a few hundred states a row, less
            # than a launch.
            if reached < level and set(acc.results) & behind:
                lines += _merged(body, acc)
                body.known.update(acc.results)
    if any("parts_ptr" in line for line in lines):
        tile = TileShape(body.tile.has_rows, "SPLITS")
        head = [f"part = {tile.lanes}", f"part_mask = {_part_mask(body)}"]
        if any("seen" in line for line in lines):  # the last chunk of a row may be shorter
            rest = f"{body.count} - part * chunk"
            head.append(f"seen = tl.maximum(tl.minimum({rest}, chunk), 0)")
        lines = [*head, *lines]
    return lines


def _part_mask(body: Body) -> str:
    mask = body.scope.mask(frozenset(body.space.kept))
    return f"({mask}) & (part < n_splits)" if mask else "part < n_splits"


def _merged(body: Body, acc: Accumulator) -> list[str]:
    """Lines that load an accumulator's states of all splits and merge them into its results."""
    tile = TileShape(body.tile.has_rows, "SPLITS")
    lines = []
    for state in acc.states:
        body.writer.loaded[_parts(state)] = None
        address = _address(body, state, "part")
        # Lanes beyond the last split read the neutral state, which changes no result.
        lines.append(f"{state.name} = tl.load({address}, mask=part_mask, other={state.start})")
    return lines + acc.merge(tile, acc.results, "seen", body.count, is_last=True)


def _address(body: Body, state: ReductionState, split: str) -> str:
    """Pointer text of a row's partial states, at the splits that the text `split` names."""
    row = body.scope.offset(body.space.kept)
    if row == "0":
        return pointer(_parts(state), split)
    row = f"({row})" if " + " in row else row
    return pointer(_parts(state), f"{row} * n_splits + {split}")


def _chunk(body: Body) -> list[str]:
    return ["begin = split * chunk", f"end = tl.minimum(begin + chunk, {body.count})"]


def _kernel(
    task: _SplitTask,
    body: Body,
    lines: list[str],
    suffix: str,
    sizes: dict[str, str],
    *,
    is_split: bool,
) -> Kernel:
    schedule = task.schedule
    grid = body.grid(str(schedule.rows))
    head = body.head()
    if is_split:
        # The split is the last grid dimension: `head` has numbered those of the rows before it.
        head.append(f"split = {body.widened(f'tl.program_id({len(grid)})')}")
        grid.append("n_splits")
    whole = [*head, *lines]
    text = " ".join(whole)
    constants = {"ROWS": str(schedule.rows)} if schedule.rows > 1 else {}
    if "BLOCK" in text:
        constants["BLOCK"] = str(schedule.block)
    if "SPLITS" in text:  # tl.arange needs a power of two
        constants["SPLITS"] = "triton.next_power_of_2(n_splits)"
    sizes |= body.scope.sizes
    return body.writer.kernel(
        schedule,
        whole,
        grid_text(grid),
        constants,
        {**planned(constants), "SPLITS": schedule.splits},
        suffix="_".join(filter(None, (task.suffix, suffix))),
        nodes=sorted(body.written | body.known),
        more=("chunk", "n_splits"),
    )
