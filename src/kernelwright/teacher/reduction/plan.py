"""The choice of programs and tiles for a reduction: orientation, kernel forms, sizes."""

from itertools import zip_longest
from math import prod

from kernelwright.teacher.contraction.schedules import NUM_SMS, power_of_two
from kernelwright.teacher.text.fixed_sizes import StageSchedule
from kernelwright.teacher.text.scope import IndexGroup, group
from kernelwright.teacher.text.space import StageSpace

MAX_TILE = 32768
"""Elements of a row that one program holds in registers: 32 a thread at 32 warps."""
MAX_SPLITS = 4096
"""Partial states that one program merges."""


def is_column(space: StageSpace) -> bool:
    """Whether the innermost axis is kept: lanes then read neighbouring rows, not columns."""
    return bool(space.kept) and space.axes[-1].name not in space.reduced


def geometry(space: StageSpace, rows: int) -> tuple[IndexGroup | None, IndexGroup, IndexGroup]:
    """The index variables of a reduction kernel: programs walk `outer` and rows, tiles the columns.

    Args:
        rows: rows of a tile; if there is one, a program's row never lies beyond the end.

    Returns:
        (kept axes that only choose the program, or None if rows walk all of them; kept positions of
        a tile; reduced positions).
    """
    reduced = [axis.name for axis in space.axes if axis.name in space.reduced]
    cols = group(space, reduced, "item")
    if not is_column(space):
        kept = group(space, space.kept, "outer", is_masked=rows > 1)
        return None, kept, cols
    inner = group(space, space.kept[-1:], "", is_masked=rows > 1)
    rest = space.kept[:-1]
    outer = group(space, rest, "outer", is_masked=False) if rest else None
    return outer, inner, cols


def schedules(space: StageSpace) -> list[StageSchedule]:
    """Every schedule that fits, best first."""
    length = prod(axis.size for axis in space.axes if axis.name in space.reduced)
    kept = prod(axis.size for axis in space.axes if axis.name not in space.reduced)
    # Lanes must walk the innermost axis, or else each load touches a cache line of its own.
    if is_column(space):
        return _columns(space, kept, length)
    return _rows(kept, length)


def _rows(kept: int, length: int) -> list[StageSchedule]:
    padded = power_of_two(length)
    one_pass = [
        StageSchedule("one_pass", rows, padded, warps, "rows fit in registers: read once")
        for rows, warps in _row_tiles(kept, padded)
    ]
    looped = [
        StageSchedule("looped", 1, block, warps, "rows in blocks: any length, few registers")
        for block, warps in ((4096, 8), (2048, 8), (1024, 4), (8192, 16))
        if block < padded
    ]
    if not looped:
        rows = 4 if kept >= 4 else 1
        looped = [StageSchedule("looped", rows, min(padded, 1024), 4, "short rows, any length")]
    split = _split(1, kept, length, 2048, 8)
    # Fewer rows than two a processor leave processors idle unless programs share a row.
    if split and kept < 2 * NUM_SMS and length > 4 * 2048:
        return _alternating(split, one_pass, looped)
    # Many rows keep all processors busy, so one split schedule, tried last, is enough.
    return [*_alternating(one_pass, looped), *split[:1]]


def _row_tiles(kept: int, padded: int) -> list[tuple[int, int]]:
    """(rows, warps) of one_pass tiles, best first: 16 elements a thread, more in long rows."""
    if padded > MAX_TILE:
        return []
    if padded >= 2048:
        # 512 elements a warp are 16 a thread. From 16 warps on a thread takes 32 instead.
        best = max(4, min(16, padded // 512), padded // 1024)
        return [(1, best), (1, best // 2), (1, min(32, best * 2))]
    # More rows a tile than this would leave fewer than two programs a processor.
    # Halved after the addition of 1: the largest power of two that is not above the quotient.
    most = power_of_two(kept // (2 * NUM_SMS) + 1) // 2 or 1
    wanted = ((2048, 4), (1024, 4), (4096, 8), (padded, max(1, padded // 256)))
    tiles = [(min(most, elements // padded), warps) for elements, warps in wanted]
    return list(dict.fromkeys(tiles))


def _columns(space: StageSpace, kept: int, length: int) -> list[StageSchedule]:
    inner = space.axes[-1].size
    schedules = []
    for rows, block, warps in ((64, 32, 8), (32, 32, 4), (128, 16, 8), (32, 128, 8), (16, 64, 4)):
        # Half of the lanes along the kept axis, or more, would lie beyond its end.
        if rows > 16 and rows >= 2 * inner:
            continue
        why = "memory runs along the kept axis: neighbours there share a tile"
        schedules.append(
            StageSchedule("looped", rows, min(block, power_of_two(length)), warps, why)
        )
    # 16 rows of 512 elements are 32 a thread at eight warps, as in MAX_TILE.
    if length <= 512:
        rows = max(16, 4096 // power_of_two(length)) if inner >= 64 else 16
        why = "what is reduced fits in the tile: read once"
        tile = StageSchedule("one_pass", min(rows, 64), power_of_two(length), 8, why)
        # Beyond 256 elements the tile is full of registers, so a loop is tried before.
        schedules.insert(0 if length <= 256 else 1, tile)
    rows = 32 if inner > 16 else 16
    programs = max(1, kept // rows)
    # A tile of the split form has 2048 elements, as in `_rows`.
    split = _split(rows, programs, length, 2048 // rows, 8)
    if split and programs < 2 * NUM_SMS and length >= 1024:
        return _alternating(split, schedules)
    return schedules + split


def _split(rows: int, programs: int, length: int, block: int, warps: int) -> list[StageSchedule]:
    """Schedules of the two_pass form; none if a row has fewer than four blocks.

    Args:
        rows: rows of a tile.
        programs: programs that there are without splits.
        length: elements of a row.
        block: elements of a row that a tile holds.
    """
    if length < 4 * block:
        return []
    # Three limits: four programs a processor, the states that one program can merge, and at least
    # four blocks for each split.
    wanted = min(4 * NUM_SMS // max(1, programs), MAX_SPLITS // rows, length // (4 * block))
    # The merging kernel pads splits to a power of two in any case.
    splits = power_of_two(max(2, wanted))
    why = "too few rows to keep all processors busy: programs share them"
    return [
        StageSchedule("two_pass", rows, size, warps, why, splits)
        for size in (block, block * 2, block // 2)
    ]


def _alternating(*forms: list[StageSchedule]) -> list[StageSchedule]:
    """The best of each form, then the second of each, and so on."""
    return [schedule for tier in zip_longest(*forms) for schedule in tier if schedule]
