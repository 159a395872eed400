"""Candidates of the pooling family: one window reduction, what comes before and after it fused."""

from functools import partial

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import Layout
from kernelwright.programs.program import Program
from kernelwright.teacher.contraction.schedules import NUM_SMS, power_of_two
from kernelwright.teacher.tile.program import TileChoice
from kernelwright.teacher.ways import Way, is_writable
from kernelwright.teacher.window.pool import MAX_WALKED, PoolKernel, WindowPool, find
from kernelwright.teacher.window.pool_rows import RowPoolKernel
from kernelwright.teacher.window.slide import POOLS

_FLAT = ((512, 4), (256, 4), (1024, 8), (1024, 4), (128, 4), (2048, 8))
"""BLOCK, num_warps."""
_PLANES = ((64, 32, 4), (32, 32, 4), (128, 16, 4), (32, 64, 4), (16, 128, 4))
"""BLOCK_C, BLOCK_P, num_warps."""
_ROWS = ((2048, 4), (4096, 8), (1024, 4))
"""Elements of a tile of outputs x elements of their windows, num_warps."""
_LONG = 64
"""Windows of at least so many elements are rows first, if a thread an output leaves the GPU idle.
Rows have not been timed at this bound."""
_THREADS = 2048 * NUM_SMS
"""The threads that an H200 runs at once."""
_SHORT = 16
"""Windows of fewer elements are no rows: most of a tile would be divisions."""
_LONGEST_STEP = 1024
"""The most elements of a window that are loaded at once."""


def classify(program: Program) -> bool:
    """Whether the program has one pool that can be written, with all calls around it."""
    if sum(call.op in POOLS for call in program.calls) != 1:
        return False
    return is_writable(lambda: ways(program, "strict")[0].write())


def ways(program: Program, precision: str) -> list[Way]:  # noqa: ARG001
    """Every way to write the program, best first."""
    pool = find(program)
    return [Way(tuple(blocks.tiles), partial(_write, pool, blocks)) for blocks in _blocks_of(pool)]


def _write(pool: WindowPool, blocks: TileChoice) -> Candidate:
    kernel = RowPoolKernel if "STEP" in blocks.tiles else PoolKernel
    return kernel(pool, blocks).candidate()


def _blocks_of(pool: WindowPool) -> list[TileChoice]:
    """Every schedule that makes sense, the favourite first."""
    flat = [
        TileChoice(
            tiles={"BLOCK": block, "num_warps": warps},
            why="windows of neighbouring outputs overlap or adjoin: L1 serves what is read again",
        )
        for block, warps in _FLAT
    ]
    planes = [
        TileChoice(
            tiles={"BLOCK_C": channels, "BLOCK_P": pixels, "num_warps": warps},
            why="tiles of channels x pixels keep reads and writes coalesced in either layout",
        )
        for channels, pixels, warps in _PLANES
    ]
    if pool.length > MAX_WALKED:
        return _rows_of(pool)
    if pool.length >= _SHORT and pool.source.layout is Layout.CONTIGUOUS:
        rows, is_idle = _rows_of(pool), pool.out.numel < _THREADS
        flat = rows + flat if pool.length >= _LONG and is_idle else flat + rows
    layouts = {pool.program.type_of(name).layout for name in pool.program.outputs}
    layouts |= {pool.source.layout}
    # Pixels are then neighbours on both sides, so a plane gains nothing.
    if Layout.CHANNELS_LAST not in layouts:
        return flat
    return planes + flat if len(layouts) > 1 else flat + planes


def _rows_of(pool: WindowPool) -> list[TileChoice]:
    """Schedules of tiles of outputs x elements of their windows, the favourite first."""
    step = min(_LONGEST_STEP, power_of_two(pool.length))
    choices = [
        TileChoice(
            tiles={"BLOCK": max(1, elements // step), "STEP": step, "num_warps": warps},
            why="a window is a row: its elements are loaded together and reduced by many threads",
        )
        for elements, warps in _ROWS
    ]
    # Processors without a program are idle.
    return sorted(choices, key=lambda one: max(1.0, NUM_SMS * one.tiles["BLOCK"] / pool.out.numel))
