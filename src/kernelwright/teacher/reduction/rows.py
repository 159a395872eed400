"""Reductions in one kernel: the row in one tile, or loops over its tiles."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kernelwright.teacher.reduction.accumulators import functions, one_pass
from kernelwright.teacher.reduction.body import Body, accumulators, grid_text
from kernelwright.teacher.source import WrapperPart, planned, row_tile
from kernelwright.teacher.text.fixed_sizes import StageSchedule
from kernelwright.teacher.text.space import StageSpace


def write_one_pass(space: StageSpace, schedule: StageSchedule, suffix: str) -> WrapperPart:
    """One kernel that holds whole rows in a tile: each element is read from memory once.

    Args:
        suffix: part of the kernel's name, to tell stages apart.
    """
    body = Body(space, schedule, suffix)
    inner = []
    # Nodes come in the graph's order: a level finds the results of the level before in registers.
    for name, node in body.stage.nodes.items():
        if node.reduce:
            # Padding of the tile must not take part: a clean value has zeros there already.
            clean = body.is_clean(node.args[0])
            count = body.count if node.reduce == "mean" else ""
            inner += one_pass(node, body.tile, "mask", count, is_clean=clean)
        else:
            inner += body.compute([name])
    inner += [body.store(tensor) for tensor in body.stage.outputs]
    lanes = body.tile.lanes
    lines = body.tile_lines(body.widened(lanes), inner)
    if schedule.rows == 1:  # the block is the row, whose length the wrapper knows first
        return _finish(body, lines, f"triton.next_power_of_2({body.count})")
    tile = row_tile(body.count, schedule.rows * schedule.block)
    return _finish(body, lines, "BLOCK", tile)


def write_looped(space: StageSpace, schedule: StageSchedule, suffix: str) -> WrapperPart:
    """One kernel that loops over the tiles of a row, once for each level of reductions.

    A further loop stores outputs over the whole domain that depend on the last level.

    Args:
        suffix: part of the kernel's name, to tell stages apart.
    """
    body = Body(space, schedule, suffix)
    everything = [acc.value for acc in accumulators(body.stage)]
    everything += [tensor.node for tensor in body.stage.outputs]
    lines: list[str] = []
    # A level needs the whole row's results of the level before: each level walks the row again.
    for level in range(max(body.level.values()) + 1):
        running, stores = body.at_level(level), body.full_stores(level)
        lines += body.row_values(everything, level)
        if running or stores:
            lines += body.loop(("0", body.count), running, stores)
        lines += body.seen_lines(running, "0", body.count)
        for acc in running:
            # Lanes of the block have run apart: one reduction merges them after the loop.
            lines += acc.merge(body.tile, acc.results, "seen", body.count, is_last=True)
            body.known.update(acc.results)
    lines += [body.store(tensor) for tensor in body.row_stores()]
    return _finish(body, lines, str(schedule.block))


def _finish(
    body: Body,
    lines: Sequence[str],
    block: str,
    tile: Mapping[str, str] = MappingProxyType({}),
) -> WrapperPart:
    """The kernel of these lines, with its wrapper part.

    Args:
        block: text of the constexpr BLOCK at the launch.
        tile: tile sizes that the wrapper computes -> their text; empty if they are numbers.
    """
    schedule = body.schedule
    rows = "ROWS" if tile else str(schedule.rows)
    grid = grid_text(body.grid(rows))
    constants = {"ROWS": rows} if schedule.rows > 1 else {}
    constants["BLOCK"] = block
    elements = {"ELEMENTS": schedule.rows * schedule.block} if tile else {}
    whole = (*body.head(), *lines)
    tiles = {**elements, **planned(constants)}
    kernel = body.kernel(schedule, whole, grid, constants, tiles, suffix=body.suffix)
    sizes = {**body.scope.sizes, **tile}
    return body.part([kernel], sizes, extra=functions(lines))
