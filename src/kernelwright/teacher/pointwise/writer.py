"""Candidates for fragments of pointwise and broadcasting operators.

Four loop forms: `flat` walks the output as one run of elements and divides to find broadcast
operands; `rows` gives a program whole rows, so no element is divided; `row_blocks` cuts long rows;
`transpose` tiles two axes, for tensors whose memory orders differ.
"""

from dataclasses import replace
from functools import partial

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.contraction.schedules import power_of_two
from kernelwright.teacher.nodes.graph import is_huge
from kernelwright.teacher.pointwise.tile import TileWriter
from kernelwright.teacher.source import WrapperPart, assemble, planned, row_tile
from kernelwright.teacher.stages import stages_of
from kernelwright.teacher.text.fixed_sizes import StageSchedule, with_fixed
from kernelwright.teacher.text.scope import IndexGroup, IndexScope, group, launch_order
from kernelwright.teacher.text.space import StageSpace, collapse
from kernelwright.teacher.ways import Way

FEW_ELEMENTS = 1 << 19
"""Below this, blocks of 1,024 leave some of an H200's 132 processors without work."""
GRID_STRIDE_PROGRAMS = 1056
"""Eight a processor of an H200: each loops over its share."""
MAX_ROW = 4096
"""Longest row that one tile holds."""
MAX_PADDING = 1.5
"""Lanes a row's tile may have for each element: idle lanes cost less than dividing."""


def classify(program: Program) -> bool:
    """Whether the program is pointwise work and views, no reductions."""
    stages = stages_of(program)
    return bool(stages) and not stages[0].reduced and not stages[0].graph.pulled


def ways(program: Program, precision: str) -> list[Way]:  # noqa: ARG001
    """Every way to write the program, best first."""
    [stage] = stages_of(program)
    space = collapse(stage)

    def write(schedule: StageSchedule) -> Candidate:
        return assemble(program, [_write(space, schedule)])

    return [Way(s.form, partial(write, s)) for s in with_fixed(schedules(space), space)]


def schedules(space: StageSpace) -> list[StageSchedule]:
    """Every schedule that fits: the best form first, and in each form the best schedule first."""
    if not space.axes:
        return [StageSchedule("flat", 1, 1, 1, "a single element")]
    numel = max(t.type.numel for t in space.stage.outputs)
    flat = [
        StageSchedule(form, 1, block, warps, "the output is one run of elements")
        for form in ("flat", "grid_stride")
        for block, warps in _flat_tiles(numel)
    ]
    # One axis: every operand is one run of elements, so rows would only cut the run.
    if len(space.axes) == 1:
        return flat
    # Along one axis one of the tensors is read with a stride. A tile over both axes reads whole
    # cache lines of both.
    if crossing(space):
        why = "memory orders differ: both sides in whole lines"
        tiles = [
            StageSchedule("transpose", rows, columns, warps, why)
            for rows, columns, warps in ((32, 32, 4), (64, 32, 4), (32, 64, 4), (64, 64, 8))
        ]
        return tiles + flat
    return _with_rows(space, flat)


def _flat_tiles(numel: int) -> list[tuple[int, int]]:
    if numel < FEW_ELEMENTS:
        return [(256, 4), (512, 4), (128, 2), (1024, 8)]
    return [(1024, 4), (2048, 8), (512, 4), (2048, 4), (4096, 8), (1024, 8)]


def _with_rows(space: StageSpace, flat: list[StageSchedule]) -> list[StageSchedule]:
    """Schedules with rows and the flat ones; rows come first unless a third of lanes would idle."""
    cols = space.axes[-1].size
    # `tl.arange` takes powers of two alone, so a row's tile has idle lanes.
    padded = power_of_two(cols)
    if cols > MAX_ROW or (cols > 512 and padded > MAX_PADDING * cols):
        why = "long rows: a row's index once a program, no division an element"
        sizes = sorted(((2048, 8), (1024, 4), (512, 4)), key=lambda b: -(-cols // b[0]) * b[0])
        return [StageSchedule("row_blocks", 1, block, warps, why) for block, warps in sizes] + flat
    why = "whole rows in a tile: a row's index once a row, no division an element"
    tiles = []
    for elements, warps in ((2048, 8), (1024, 4), (4096, 8)):
        rows = max(1, elements // padded)
        if rows * padded <= 2 * elements:
            tiles.append(StageSchedule("rows", rows, padded, warps, why))
    return tiles + flat if padded <= MAX_PADDING * cols else flat + tiles


def crossing(space: StageSpace) -> tuple[str, str] | None:
    """The innermost axes of two tensors that lie in memory in different orders; None if none do.

    Returns:
        (innermost axis of the other tensor, innermost axis of the leading output).
    """
    leading = space.axes[-1].name
    for tensor in (*space.stage.inputs, *space.stage.outputs):
        order = space.orders[tensor.name]
        if leading in order and order[-1] != leading:
            return order[-1], leading
    return None


def _write(space: StageSpace, schedule: StageSchedule) -> WrapperPart:
    """The kernel of a stage in one schedule, with its wrapper part."""
    stage = space.stage
    position = ".to(tl.int64)" if is_huge(stage) else ""
    emit = {
        "flat": _flat, "grid_stride": _flat, "rows": _rows, "row_blocks": _row_blocks,
        "transpose": _transpose,
    }[schedule.form]  # fmt: skip
    writer, head, grid, constants = emit(space, schedule, position)
    body = [line for name in stage.nodes for line in writer.assign(name)]
    body += [writer.store(tensor) for tensor in stage.outputs]
    indices = [line for group in writer.scope.groups for line in writer.scope.indices(group)]
    mask = writer.full_mask
    lines = [*head, *indices, *([f"mask = {mask}"] if mask else []), *body]
    # All but the `for` line is the body of the loop.
    if schedule.form == "grid_stride":
        lines = [lines[0], *(f"    {line}" for line in lines[1:])]
    sizes, tiles = dict(writer.scope.sizes), planned(constants)
    # The tile's rows follow from the row's length, which is known when the kernel is called.
    if "ROWS" in grid:  # the wrapper computes the tile
        sizes |= constants
        constants = {name: name for name in ("ROWS", "BLOCK")}
        tiles = {"ELEMENTS": schedule.rows * schedule.block}
    loop = f"pointwise {schedule.form}"
    kernel = writer.kernel(schedule, lines, grid, constants, tiles, loop=loop)
    return writer.part([kernel], sizes)


Form = tuple[TileWriter, list[str], str, dict[str, str]]
"""(writer, head lines, grid text, constexpr texts)."""


def _flat(space: StageSpace, schedule: StageSchedule, position: str) -> Form:
    whole = group(space, [axis.name for axis in space.axes], "elements")
    # One run of elements: a tensor with all axes in this order has the variable as its offset.
    whole = replace(whole, var="offsets")
    writer = TileWriter(space, IndexScope([whole]))
    count, block = whole.count, schedule.block
    if not space.axes:
        return writer, [], "(1,)", {}
    if schedule.form == "flat":
        head = [f"offsets = tl.program_id(0){position} * BLOCK + tl.arange(0, BLOCK)"]
        grid = f"(triton.cdiv({count}, {block}),)"
    else:
        first = f"tl.program_id(0){position} * BLOCK"
        head = [
            f"for start in range({first}, {count}, tl.num_programs(0) * BLOCK):",
            "offsets = start + tl.arange(0, BLOCK)",
        ]
        grid = f"(min(triton.cdiv({count}, {block}), {GRID_STRIDE_PROGRAMS}),)"
    return writer, head, grid, {"BLOCK": str(block)}


def _rows(space: StageSpace, schedule: StageSchedule, position: str) -> Form:
    rows = schedule.rows
    outer = _outer(space, is_masked=rows > 1)
    cols = group(space, [space.axes[-1].name], "")
    writer = TileWriter(space, IndexScope([outer, cols]))
    constants = {"BLOCK": f"triton.next_power_of_2({cols.count})"}
    if rows > 1:
        head = [
            f"{outer.var} = tl.program_id(0){position} * ROWS + tl.arange(0, ROWS)[:, None]",
            f"{cols.var} = tl.arange(0, BLOCK)[None, :]",
        ]
        grid = f"(triton.cdiv({outer.count}, ROWS),)"
        constants = row_tile(cols.count, rows * schedule.block)
    else:
        head = [f"{outer.var} = tl.program_id(0){position}", f"{cols.var} = tl.arange(0, BLOCK)"]
        grid = f"({outer.count},)"
    writer.scope.count(outer)
    return writer, head, grid, constants


def _row_blocks(space: StageSpace, schedule: StageSchedule, position: str) -> Form:
    outer = _outer(space, is_masked=False)
    cols = group(space, [space.axes[-1].name], "")
    writer = TileWriter(space, IndexScope([outer, cols]))
    writer.scope.count(outer)
    block = schedule.block
    order = launch_order(outer.blocks(1), cols.blocks(block))
    head = [
        f"{outer.var} = tl.program_id({order.index(0)}){position}",
        f"{cols.var} = tl.program_id({order.index(1)}) * BLOCK + tl.arange(0, BLOCK)",
    ]
    sizes = outer.count, f"triton.cdiv({cols.count}, {block})"
    return writer, head, f"({', '.join(sizes[at] for at in order)})", {"BLOCK": str(block)}


def _outer(space: StageSpace, *, is_masked: bool) -> IndexGroup:
    return group(space, [axis.name for axis in space.axes[:-1]], "outer", is_masked=is_masked)


def _transpose(space: StageSpace, schedule: StageSchedule, position: str) -> Form:
    # Columns run along the innermost axis of the leading output, rows along that of the other
    # tensor. So each of the two has one side of the tile in whole cache lines.
    pair = crossing(space)
    assert pair is not None
    slow, fast = (group(space, [name], "") for name in pair)
    rest = [axis.name for axis in space.axes if axis.name not in pair]
    outer = group(space, rest, "outer", is_masked=False)
    rows, columns = schedule.rows, schedule.block
    blocks = [fast.blocks(columns), slow.blocks(rows), *([outer.blocks(1)] if rest else [])]
    order = launch_order(*blocks)
    x, y = (f"tl.program_id({order.index(at)}){position}" for at in (0, 1))
    head = [
        f"{slow.var} = {y} * ROWS + tl.arange(0, ROWS)[:, None]",
        f"{fast.var} = {x} * BLOCK + tl.arange(0, BLOCK)[None, :]",
    ]
    sizes = [f"triton.cdiv({fast.count}, {columns})", f"triton.cdiv({slow.count}, {rows})"]
    if rest:
        head.insert(0, f"{outer.var} = tl.program_id({order.index(2)}){position}")
        sizes.append(outer.count)
    writer = TileWriter(space, IndexScope([*([outer] if rest else []), slow, fast]))
    if rest:
        writer.scope.count(outer)
    grid = f"({', '.join(sizes[at] for at in order)})"
    return writer, head, grid, {"ROWS": str(rows), "BLOCK": str(columns)}
